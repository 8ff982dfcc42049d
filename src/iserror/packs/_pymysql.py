"""`pymysql`, and what raises its exceptions, such as aiomysql; with MySQL and MariaDB."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes, sql
from iserror.packs.http import is_tls


def _number(exc: Any) -> object:
    number = exc.args[0]
    if number == 2003 and is_tls(exc.original_exception):
        return 2026
    return number


# InnoDB rolls back everything that a failed statement changed. An engine without transactions doesn't (MyISAM, Aria),
# but none is the default since MySQL 5.5. Numbers 2xxx are the client's, all others the server's.
_NUMBERS: Final = {
    # Closed before: nothing is left to send on.
    "0": codes.DEPENDENCY_UNAVAILABLE,
    "1007": codes.ALREADY_EXISTS,
    "1020": codes.TRANSACTION_CONFLICT,
    "1021": codes.STORAGE_FULL,
    "1022": codes.ALREADY_EXISTS,
    "1037": sql.OVERLOADED,
    "1040": codes.DEPENDENCY_BUSY,
    "1041": sql.OVERLOADED,
    "1044": codes.UPSTREAM_PERMISSION_DENIED,
    "1045": codes.UPSTREAM_UNAUTHENTICATED,
    # A node of Galera that is not part of the cluster at present.
    "1047": sql.OVERLOADED,
    "1048": sql.NOT_NULL,
    "1050": codes.ALREADY_EXISTS,
    "1053": codes.CONNECTION_LOST,
    "1054": codes.QUERY_INVALID,
    "1062": codes.ALREADY_EXISTS,
    "1064": codes.QUERY_INVALID,
    "1114": codes.STORAGE_FULL,
    "1129": codes.DEPENDENCY_UNAVAILABLE,
    "1130": codes.UPSTREAM_UNAUTHENTICATED,
    "1136": codes.QUERY_INVALID,
    "1142": codes.UPSTREAM_PERMISSION_DENIED,
    "1143": codes.UPSTREAM_PERMISSION_DENIED,
    "1146": codes.QUERY_INVALID,
    "1153": codes.INVALID_VALUE,
    "1169": codes.ALREADY_EXISTS,
    # The commit itself failed.
    "1180": codes.UPSTREAM_ERROR,
    "1203": codes.DEPENDENCY_BUSY,
    "1205": codes.LOCK_TIMEOUT,
    "1206": sql.OVERLOADED,
    "1213": codes.TRANSACTION_CONFLICT,
    "1216": codes.REFERENCE_VIOLATION,
    "1217": codes.REFERENCE_VIOLATION,
    # So many queries or connections an hour.
    "1226": codes.UPSTREAM_RATE_LIMITED,
    "1227": codes.UPSTREAM_PERMISSION_DENIED,
    "1235": codes.UPSTREAM_UNIMPLEMENTED,
    "1264": codes.INVALID_VALUE,
    "1265": codes.INVALID_VALUE,
    "1290": codes.READ_ONLY,
    "1292": codes.INVALID_VALUE,
    "1301": codes.INVALID_VALUE,
    "1305": codes.QUERY_INVALID,
    "1317": codes.QUERY_TIMEOUT,
    "1364": sql.NOT_NULL,
    "1366": codes.INVALID_VALUE,
    "1370": codes.UPSTREAM_PERMISSION_DENIED,
    "1406": codes.INVALID_VALUE,
    "1451": codes.REFERENCE_VIOLATION,
    "1452": codes.REFERENCE_VIOLATION,
    "1586": codes.ALREADY_EXISTS,
    # SIGNAL in a procedure or trigger.
    "1644": codes.UPSTREAM_REJECTED,
    "1690": codes.INVALID_VALUE,
    "1698": codes.UPSTREAM_UNAUTHENTICATED,
    "1792": codes.READ_ONLY,
    "1820": codes.UPSTREAM_UNAUTHENTICATED,
    "1836": codes.READ_ONLY,
    "1862": codes.UPSTREAM_UNAUTHENTICATED,
    "1927": codes.CONNECTION_LOST,
    "1969": codes.QUERY_TIMEOUT,
    "2003": codes.DEPENDENCY_UNAVAILABLE,
    # pymysql raises it where it could not write the whole statement, which then cannot run.
    "2006": codes.DEPENDENCY_UNAVAILABLE,
    "2013": codes.CONNECTION_LOST,
    "2026": codes.TLS_FAILED,
    "2059": codes.UPSTREAM_UNAUTHENTICATED,
    "3024": codes.QUERY_TIMEOUT,
    "3101": codes.TRANSACTION_CONFLICT,
    "3118": codes.UPSTREAM_UNAUTHENTICATED,
    "3140": codes.INVALID_VALUE,
    "3572": codes.LOCK_TIMEOUT,
    "3819": sql.CHECK,
    "4025": sql.CHECK,
    "4151": codes.UPSTREAM_UNAUTHENTICATED,
}

# By number alone: which class has which number differs between the versions of pymysql.
pymysql: Final = Pack(
    name="pymysql",
    sources=(
        "https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html",
        "https://dev.mysql.com/doc/mysql-errors/8.4/en/client-error-reference.html",
        "https://mariadb.com/kb/en/mariadb-error-code-reference/",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-error-handling.html",
        "https://github.com/PyMySQL/PyMySQL/blob/main/pymysql/err.py",
    ),
    rows={
        "pymysql.err.IntegrityError": sql.NAMED_ONLY,
        "pymysql.err.DataError": sql.NAMED_ONLY,
        "pymysql.err.OperationalError": sql.NAMED_ONLY,
        "pymysql.err.ProgrammingError": sql.NAMED_ONLY,
        "pymysql.err.NotSupportedError": sql.NAMED_ONLY,
        "pymysql.err.InternalError": sql.NAMED_ONLY,
        "pymysql.err.InterfaceError": sql.NAMED_ONLY,
        "pymysql.err.Error": By("number", _number, _NUMBERS),
    },
)
