"""What Python brings: files and sockets, names, TLS, timeouts, programs, decoding, `http.client` and `urllib`.

These aren't listed: classes that mistakes raise as well (ValueError, KeyError, RuntimeError, EOFError, ImportError,
HTTPException), and classes for control flow (queue.Empty, StopIteration, BlockingIOError). OSError is read by `errno`,
and only in Python's own classes: a library's subclass may use `errno` for anything (in `ssl.SSLError` 1 isn't EPERM).
"""

from __future__ import annotations

from dataclasses import replace
from errno import errorcode
from typing import Any, Final

from iserror.errors.attempts import passed_client
from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.errors.records import phase_of
from iserror.errors.template import Template
from iserror.packs import codes
from iserror.packs.http import by_status, is_tls

_TIMEOUT: Final = replace(
    codes.UPSTREAM_TIMEOUT, message=Template(("Something that this tool waited for did not come in time.",))
)
_NO_JSON: Final = replace(
    codes.UPSTREAM_INVALID_RESPONSE, message=Template(("Something that this tool had to read is not valid JSON.",))
)
_NO_TEXT: Final = replace(
    codes.UPSTREAM_INVALID_RESPONSE,
    message=Template(("Something that this tool had to read is not text in the encoding that it expects.",)),
)
_NO_TLS: Final = codes.TLS_FAILED.unproven()
# A part of the data may be written.
_FULL: Final = codes.STORAGE_FULL.unproven()
_NO_MODULE: Final = replace(
    codes.FEATURE_UNAVAILABLE,
    message=Template(("This server lacks the Python module ", ("name",), ", which the tool needs.")),
)
_EXIT: Final = replace(
    codes.COMMAND_FAILED,
    message=Template(("A program that this tool runs failed (exit status ", ("returncode",), ").")),
)
_NO_MEMORY: Final = codes.RESOURCES_EXHAUSTED.unproven()


def _errno(exc: OSError) -> str | None:
    if type(exc).__module__ != "builtins":
        return None
    name = errorcode.get(exc.errno or 0, "").removeprefix("WSA")  # Windows' sockets have their own set
    phase = phase_of(exc)
    return f"{phase} {name}" if phase else name


def _from_client(exc: BaseException) -> str | None:
    return "from a client" if passed_client(exc) else None


def _network(entry: Entry) -> By:
    return By("phase", phase_of, {"connecting": codes.DEPENDENCY_UNAVAILABLE}, entry)


_LOST: Final = _network(codes.CONNECTION_LOST)
_TLS: Final = By("phase", phase_of, {"connecting": codes.TLS_FAILED}, _NO_TLS)
_TLS_LOST: Final = By("phase", phase_of, {"connecting": codes.TLS_FAILED}, codes.CONNECTION_LOST)


def _reason(exc: Any) -> str | None:
    """Return how far `urlopen` got. Its URLError covers connecting and sending, not the answer."""
    reason = exc.reason
    if not isinstance(reason, BaseException):
        return None if exc.__cause__ is not None else "no request"  # the cause of "ftp error: ..." is sent already
    phase = phase_of(reason)
    if phase and is_tls(reason):
        return "TLS"
    return phase or ("timeout" if isinstance(reason, TimeoutError) else None)


stdlib: Final = Pack(
    name="stdlib",
    sources=(
        "https://docs.python.org/3/library/exceptions.html#os-exceptions",
        "https://docs.python.org/3/library/errno.html",
        "https://docs.python.org/3/library/socket.html#exceptions",
        "https://docs.python.org/3/library/ssl.html#exceptions",
        "https://docs.python.org/3/library/subprocess.html#exceptions",
        "https://docs.python.org/3/library/http.client.html",
        "https://docs.python.org/3/library/urllib.error.html",
        "https://docs.python.org/3/library/asyncio-exceptions.html",
        "https://docs.python.org/3/library/concurrent.futures.html#exception-classes",
    ),
    rows={
        "builtins.FileNotFoundError": By("errno", _errno, {"ENOENT": codes.NOT_FOUND}),
        "builtins.NotADirectoryError": By("errno", _errno, {"ENOTDIR": codes.NOT_FOUND}),
        "builtins.FileExistsError": By("errno", _errno, {"EEXIST": codes.ALREADY_EXISTS}),
        "builtins.PermissionError": By(
            "errno", _errno, {"EACCES": codes.SYSTEM_PERMISSION_DENIED, "EPERM": codes.SYSTEM_PERMISSION_DENIED}
        ),
        # No server took the connection, so nothing was sent over it.
        "builtins.ConnectionRefusedError": codes.DEPENDENCY_UNAVAILABLE,
        "builtins.ConnectionResetError": _LOST,
        "builtins.ConnectionAbortedError": _LOST,
        "builtins.BrokenPipeError": _LOST,
        # A socket's, ETIMEDOUT, asyncio's and concurrent.futures'. The last two have their own classes on 3.10.
        "builtins.TimeoutError": _network(_TIMEOUT),
        "asyncio.exceptions.TimeoutError": _network(_TIMEOUT),
        "concurrent.futures._base.TimeoutError": _TIMEOUT,
        "builtins.OSError": By(
            "errno",
            _errno,
            {
                "EDQUOT": _FULL,
                "EMFILE": codes.RESOURCES_EXHAUSTED,
                "ENAMETOOLONG": codes.INVALID_VALUE,
                "ENFILE": codes.RESOURCES_EXHAUSTED,
                "ENOMEM": codes.RESOURCES_EXHAUSTED,
                "ENOSPC": _FULL,
                "EROFS": codes.READ_ONLY,
                # Linux says these of a connection that was made, too, when nothing has come for long.
                "EHOSTDOWN": codes.CONNECTION_LOST,
                "EHOSTUNREACH": codes.CONNECTION_LOST,
                "ENETDOWN": codes.CONNECTION_LOST,
                "ENETRESET": codes.CONNECTION_LOST,
                "ENETUNREACH": codes.CONNECTION_LOST,
                "connecting EMFILE": codes.RESOURCES_EXHAUSTED,
                "connecting ENFILE": codes.RESOURCES_EXHAUSTED,
                # If several addresses fail, asyncio raises one OSError without an errno.
                "connecting": codes.DEPENDENCY_UNAVAILABLE,
                # The program is missing, or isn't a program.
                "starting ENOENT": codes.FEATURE_UNAVAILABLE,
                "starting EACCES": codes.FEATURE_UNAVAILABLE,
            },
        ),
        "builtins.MemoryError": _NO_MEMORY,
        "builtins.ModuleNotFoundError": _NO_MODULE,
        "socket.gaierror": codes.DEPENDENCY_UNAVAILABLE,
        "socket.herror": codes.DEPENDENCY_UNAVAILABLE,
        # A server's certificate is looked at in the handshake only.
        "ssl.SSLCertVerificationError": codes.TLS_FAILED,
        "ssl.SSLEOFError": _TLS_LOST,
        "ssl.SSLSyscallError": _TLS_LOST,
        "ssl.SSLZeroReturnError": _TLS_LOST,
        # A handshake, a key that cannot be loaded, or the middle of a connection.
        "ssl.SSLError": _TLS,
        "subprocess.CalledProcessError": _EXIT,
        "subprocess.TimeoutExpired": codes.COMMAND_TIMEOUT,
        "concurrent.futures._base.BrokenExecutor": codes.COMMAND_FAILED,
        "concurrent.futures.process.BrokenProcessPool": codes.COMMAND_FAILED,
        "concurrent.futures.thread.BrokenThreadPool": codes.COMMAND_FAILED,
        # Without a client in the traceback it is as likely an argument that the tool decodes.
        "json.decoder.JSONDecodeError": By("came", _from_client, {"from a client": _NO_JSON}),
        "builtins.UnicodeDecodeError": By("came", _from_client, {"from a client": _NO_TEXT}),
        "asyncio.exceptions.IncompleteReadError": codes.CONNECTION_LOST,
        "asyncio.exceptions.LimitOverrunError": codes.UPSTREAM_INVALID_RESPONSE,
        "http.client.RemoteDisconnected": codes.CONNECTION_LOST,
        "http.client.IncompleteRead": codes.CONNECTION_LOST,
        "http.client.BadStatusLine": codes.UPSTREAM_INVALID_RESPONSE,
        "http.client.LineTooLong": codes.UPSTREAM_INVALID_RESPONSE,
        "http.client.UnknownProtocol": codes.UPSTREAM_INVALID_RESPONSE,
        "http.client.InvalidURL": codes.REQUEST_INVALID,
        "urllib.error.HTTPError": by_status("code", lambda exc: exc.headers),
        "urllib.error.ContentTooShortError": codes.CONNECTION_LOST,
        "urllib.error.URLError": By(
            "phase",
            _reason,
            {
                "connecting": codes.DEPENDENCY_UNAVAILABLE,
                "TLS": codes.TLS_FAILED,
                "no request": codes.REQUEST_INVALID,
                "timeout": codes.UPSTREAM_TIMEOUT,
            },
            codes.CONNECTION_LOST,
        ),
    },
)
