"""Credentials handed to a program or a function."""

from __future__ import annotations

from collections.abc import Iterator

from iserror.redact.names import is_argument
from iserror.redact.rule import Rule

_GAP = r"(?:[\"']?,\s?[\"']|[ \t]{1,9}[\"']?|[\"'])"
_ARG = r"(?!-)(?P<v>(?<=[\"'])[^\"'\n]{3,256}(?=[\"'])|[^\s\"'|,]{3,256})"
_COMMANDS = (
    r"(?:curl|wget|https?|xh)\b[^\n|]{0,200}?\s[\"']?(?:-u|--(?:proxy-)?user|-U|-a|--auth)(?:[\"'],)?[ =]?\s?[\"']?"
    r"(?:[\w.@+-]|\[redacted:\w{1,40}\]){1,80}:",
    r"(?:mysql\w{0,20}|mariadb\w{0,20}|7z)\b[^\n|]{0,200}?\s[\"']?-p[\"']?(?=[^\s\"'])",
    r"(?:(?:redis|valkey)-cli|sshpass|mongo\w{0,20}|(?:docker|podman|helm|oc|az)\b[^\n|]{0,40}login|ldap\w{1,20}|sqlcmd|bcp|"
    r"unzip|zip|rabbitmqadmin|mosquitto_\w{1,20}|ipmitool|influx|clickhouse-client|cqlsh|plink|pscp|psftp|putty|psexec|twine|"
    r"xfreerdp|rclone|svn)\b[^\n|]{0,200}?[\s\"']-(?:a|p|w|P|pw|x?w(?=\w{4}))" + _GAP + r"?",
    r"(?:skopeo|podman|buildah)\b[^\n|]{0,200}?creds[= ][\w.-]{1,64}:",
    r"cf login\b[^\n|]{0,200}?\s-p" + _GAP,
    r"(?:smbclient|rpcclient|net rpc|winexe|wmic)\b[^\n|]{0,200}?-U\s?[\"']?[\w.\\-]{1,64}%",
    r"openssl\b[^\n|]{0,200}?(?:\spass:|\s-[kK]" + _GAP + r")",
    r"sqlplus\b[^\n|]{0,60}?\s[\w.]{1,64}/(?=[^\s/@]{3,64}@)",
    r"ssh-keygen\b[^\n|]{0,200}?\s-[NP]" + _GAP,
    r"(?:keytool|jarsigner|apksigner)\b[^\n|]{0,300}?\s-(?:store|key)pass(?!:env)" + _GAP,
    r"keytool\b[^\n|]{0,300}?-keypass" + _GAP,
    r"signtool\b[^\n|]{0,200}?\s/p" + _GAP,
    r"schtasks\b[^\n|]{0,200}?\s/rp" + _GAP,
    r"net use\b[^\n|]{0,200}?/user:\S{1,80}" + _GAP,
    r"net user [\w.-]{1,40}" + _GAP + r"(?!/)",
    r"cmdkey\b[^\n|]{0,200}?/pass:",
    r"ConvertTo-SecureString\b(?: -String)?" + _GAP + r"(?!-)",
    r"snmp\w{3,12}\b[^\n|]{0,200}?\s-[AX]" + _GAP,
    r"snmp\w{3,12}\b[^\n|]{0,200}?-a [\w-]{3,8} -A \S{1,80} -x \w{3,8} -X" + _GAP,
    r"snmp\w{3,12}\b[^\n|]{0,200}?\s-c" + _GAP,
    r"mc alias set \S{1,80} \S{1,200} (?:\[redacted:\w{1,40}\]|\S{1,100}) ",
    r"mc alias set \S{1,80} \S{1,200} ",
    r"(?:doctl auth init|vault login|railway login|snyk auth|ngrok (?:config add-)?authtoken|gh auth login|"
    r"sentry-cli login|tailscale up|cloudflared?\b)(?: (?:-t|--token|--auth-token|--authkey))?[ =]",
    r"bitcoin-cli importprivkey ",
    r"(?:pulumi|aws|npm|git|gcloud|heroku|fly|firebase|wrangler|supabase|gh|poetry|pip|dotnet)\b[^\n|]{0,40}?"
    r"\b(?:config(?:ure)?(?::set)?|secrets?|user-secrets) (?:set|add|put)(?: -\S{1,30}){0,8} [\w.:/-]{0,60}"
    r"(?i:password|secret|token|key|pwd|passphrase)\w{0,12}[ =]",
    r"(?:ENV|setx|set -x|set -gx|setenv|putenv)\s{1,4}\w{0,60}(?:PASSWORD|SECRET|TOKEN|KEY|AUTH|PWD|PASS|"
    r"CREDENTIALS?)\w{0,8}\s[\"']?",
)
_CLI = r"\b(?:" + "|".join(_COMMANDS) + r")" + _ARG
_COMMAND_GATES = (" -", "'-", '"-', " pass:", " /", "net user", "alias set", "sqlplus", "auth", "login", "env ", "set")
_PIPED = (
    r"\becho(?: -n)?\s[\"']?(?P<v>[^\s\"'|]{6,256})[\"']?\s?\|\s?(?:[\w-]{2,20}\s(?=[^\n|"
    r"]{0,80}(?:password-stdin|with-token|login))|"
    r"sudo -S)|password-command[\"']?(?:,\s?|[ =])[\"']?echo (?P<w>[^\s\"']{4,256})"
)
_PAIRS = (
    r"(?i:(?:\blogin|auth\w{0,20}(?:[\"']?\s?[=:]\s?)?|username_pw_set|credentials?|\bPDO(?:->__construct)?|"
    r"getConnection|\bconnect\w{0,12}))\(\s?(?:\([^()\n]{1,100}\),\s?\(|[\"']\w{2,12}:[^\"'\n]{1,100}[\"'],\s?)?"
    r"b?[\"'][^\"'\n]{0,80}[\"'],\s?b?[\"'](?P<v>[^\"'\n]{1,200})[\"']\s?[),]"
)


def rules() -> Iterator[Rule]:
    yield Rule("cli_password", "secret", _CLI, _COMMAND_GATES, check=is_argument)
    yield Rule("piped_password", "secret", _PIPED, ("echo",))
    yield Rule("auth_pair", "secret", _PAIRS, ("('", '("'), check=is_argument)
