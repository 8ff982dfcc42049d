"""Credentials told by where they stand: assignments, headers, URLs, command lines, sentences."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from iserror.redact.names import HARMLESS_NAME, counts, grade_of, is_harmless, is_random, is_wordy
from iserror.redact.rule import MARK, Rule, any_word, group_of, has_marker, is_marked, regex

QUOTE = r"(?:\\{0,6}[\"'`]|\\{1,4}u00(?:22|27)|&quot;|&#3[49];|%22|[“”„‘’«»‹›「」『』])"  # of any escape level
# What separates a name from its value, and, read backwards from there, the name.
_SEPARATOR = (
    r"[:=：＝%,](?:(?<=[:=：＝])(?:(?<=\w\w.)|(?<=[\w\])\"'`;”’»」 \t\xa0\\2][\])\"'`;”’»」 \t\xa02].))(?:[=>](?!=))?|"
    r"(?<=%)(?:25)?3[dDaA](?<=[\w%-]...)|(?<=[\"'],)(?=\s?b?[\"']))(?:[ \t\xa0\r]{0,40}(?:\n[ \t]{1,40}|%20)?|"
    r"\\n\s{1,40})"
)
_EMAN = (
    r"[ \t\xa0]{0,40}(?:detcetorp:|etavirp:)?(?:\]|[dD]5%)?"
    r"(?:[\"'`“”„‘’«»‹›「」『』]\\{0,6}|(?:22|72)00u\\{1,4}|;touq&|;[94]3#&|22%)?(?:\]|[dD]5%)?(?P<k>[\w.$-]{1,100})"
)
_FLAG = r"(?P<k>-(?<![\w.$-]-)-?[a-zA-Z][\w-]{2,40})(?:(?P<s>[ \t])[ \t]{0,4}|[\"'],\s?(?=b?[\"']))"
_VALUE = (
    r"(?!\[redacted|<)(?:[\[(]\s{0,4}(?=b?[\"']))?(?:string\(\d{1,6}\)\s)?(?:[bBrRuU]{1,2}(?=[\"']))?(?:"
    # Quoted, closed or cut off.
    r"(?:\"\"\"|''\')\s{0,9}(?P<t>[^\"']{1,4096})|"
    r"(?P<q>" + QUOTE + r")(?P<v>(?:[^\n\\\"'`&%“”«»‹›「」『』]{1,1024}|(?!(?P=q)|[”»›」』])(?:\\.|[^\n\\])){0,512})|"
    r"(?:qq?|(?<=[=>])|(?<=[=>] ))\{(?P<b>[^{}\"'\n][^{}\n]{0,500})\}|\[(?P<l>[^\[\]{}\n]{1,2000})\]|"  # ODBC, a list
    r"[|>][+-]?\d?[ \t]*\r?\n(?P<i>[ \t]+)(?P<y>[^\n]{1,2000}(?:\n(?P=i)[^\n]{1,2000}){0,40})|"  # a YAML block
    # Bare: `&`, `,` and `;` end it where another key, a blank or the end follows; brackets before a non-word.
    r"(?P<u>(?![{(]\s?[\"'])(?:(?<![=:])\{|[^\s\"'`<>&,;)}{\]\\|%“”«»‹›「」]{1,1024}|%(?!2[26cC]|3[bB]|25(?:2[26cC]|3[bB]))|%2[26](?=[^&\n]{0,99}&)(?<![\"'])|"
    r"[&,;](?!\s|\Z|amp;|quot;|lt;|[\w.%\[\]-]{1,60}[=:])|[)}{\]\"'](?=\w)|\\(?:\r?\n\s{0,20}(?=\S)|(?![\\nrt\"'\n]))){1,512}))"
)


def _assigned(text: str, named: Iterable[tuple[str, str, int]]) -> Iterator[tuple[int, int]]:
    """Find the values behind names, each given with its separator and the position of its value."""
    end = 0
    for name, sep, at in named:
        if at < end:
            continue
        grade = grade_of(name)
        value = regex(_VALUE).match(text, at)
        if value is None or value.lastgroup is None:
            continue
        start, stop = value.span(value.lastgroup)
        bare = value.lastgroup == "u"
        more = bare and bool(regex(r"[ \t]+[^\W_]|[ \t]+\(|[),|\]]|[ \t]*=").match(text, stop))
        found = text[start:stop]
        if value.lastgroup == "b" and found.isidentifier():  # `{api_key}` is to be filled in
            continue
        if bare and "?" in found and name.lower().endswith("sessionid"):
            stop = start + found.index("?")  # a path's parameter ends where its query begins
        if bare and regex(r"[A-Za-z_][A-Za-z_.]*:?").fullmatch(found) and grade_of(found.rstrip(":")) == "strong":
            continue  # `password=password`: one name given for another
        if counts(grade, found, sep, not bare, more):
            yield start, stop
            changed = regex(r"[\"']\s?[-=]>\s?[\"']([^\"'\n]{1,1024})").match(text, stop)  # from one value to another
            if changed:
                yield changed.span(1)
        elif stop - start < 64:  # a long harmless value is not read again for each name in it
            continue
        end = value.end()


def _assignments(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names in JSON, YAML, env, queries, arguments, headers and connection strings."""

    def named() -> Iterator[tuple[str, str, int]]:
        name_before = regex(_EMAN).match
        has_marks = MARK in text
        for m in regex(_SEPARATOR).finditer(text):
            at = m.start()
            name = name_before(text[max(0, at - 120) : at][::-1])
            if name is None or not grade_of(key := name["k"][::-1]):
                continue
            first = at - name.end()
            if has_marks and is_marked(text, first):
                continue
            sep = m[0].rstrip()
            # Of a tuple's first item the whole is the name.
            if sep != "," or text[max(0, first - 1) : first] in ("'", '"'):
                yield key, "=" if sep[0] == "%" and "d" in sep.lower() else sep, m.end()

    return _assigned(text, named())


def _flags(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names behind the flags of a command line."""
    return _assigned(text, ((m["k"], m["s"] or ",", m.end()) for m in regex(_FLAG).finditer(text) if grade_of(m["k"])))


def _cookies(text: str) -> Iterator[tuple[int, int]]:
    """Find the values in Cookie and Set-Cookie headers and cookie jars, but not the attributes."""
    header = (
        r"[cC](?<!\[redacted:.)(?i:ookies?)" + QUOTE + r"?\]?(?:\s{0,4}[:=]|\s?,(?=\s?b?[\"'])| were|"
        r" (?=[\w.-]{1,80}=))\s{0,4}\[?b?"
        r"(?P<v>[^\n<>]{1,8192})"
    )
    attribute = r"path|domain|expires|max-age|samesite|version|priority|comment"
    pair = (
        r"([\w$.](?<![\w.$!-].)[\w.$!-]{0,99})(?=[=\\\"':&%`])"
        + QUOTE
        + r"?(?:=|: ?)"
        + QUOTE
        + r"?([^;\s\"'<>,&\\\]]{4,4096})"
    )
    for m in regex(header).finditer(text):
        end = m.start("v")
        for p in regex(pair).finditer(text, *m.span("v")):
            # Another header of the same map is no cookie.
            between = text[end : p.start(1)].strip(" \t\"'b[{(")
            if between and between[-1] not in ";," and "=" in between:
                continue
            if between and any(c in between for c in "])}"):
                continue
            end = p.end(2)
            if is_wordy(p[2]) and m[0][:12].lower().rstrip("s").startswith("cookie ") and "=" not in m[0][:9]:
                continue  # `Cookie consent=denied`
            if not regex(attribute, re.I).fullmatch(p[1]) and (";" in m[0] or text[p.end(1)] == "=" or is_random(p[2])):
                yield p.span(2)


def _is_code(m: re.Match[str]) -> bool:
    return bool(regex(_BEFORE_CODE).search(m.string, max(0, m.start() - 80), m.start()))


def _named(m: re.Match[str]) -> bool:
    value = m[group_of(m)].strip()
    if " " in value and all(map(is_wordy, value.split())):
        return False
    return counts(grade_of(m["k"]), value)


def _in_prose(m: re.Match[str]) -> bool:
    """Whether what follows the word `password` or `token` in a sentence looks like one."""
    value = m["v"].rstrip(".,;:!?)]}>")
    if value.isalpha() and value.islower():
        return False
    before = regex(r"([A-Za-z]+)[ -]\Z").search(m.string, max(0, m.start() - 20), m.start())
    if before and regex(HARMLESS_NAME).fullmatch(f"{before[1]}{m[0][:5]}".lower()):
        return False
    odd = is_random(value)
    if not odd and m[0][:3].lower() not in ("key", "tok", "cre"):
        odd = sum(bool(regex(c).search(value)) for c in ("[a-z]", "[A-Z]", r"\d", r"[^\w\s.,:'-]")) > 2
    return odd and not has_marker(value) and not is_harmless(value)


_PROSE = (
    r"(?<![\w-])"
    + any_word("password passwd passphrase pwd secret token key credentials?")
    + r"(?: (?:is|was|of|value|provided|given|used|"
    r"supplied|received|got|now)){0,3}[:=]?\s{1,2}(?P<q>[\"'`“«])?(?P<v>[^\s\"'`”»]{6,512})"
)
_CODE = r"\d(?<![\w.-].)(?:[ -]?\d){3,8}(?!\w|\.\d)"
_BEFORE_CODE = (
    r"(?i:passcode|\botp|\btotp|\bpin|\b(?:one-time|verification|security|login|access|2fa|mfa|"
    r"auth\w{0,12})[ -](?:code|password|pin))"
    r"(?i: (?:code|is|was|for [\w.@-]{1,60})){0,3}\s?[:=]?\s[\"']?\Z"
)
_NAME_VALUE = (
    any_word("name key field") + QUOTE + r"?\s{0,4}[:=]\s{0,4}(?P<q>" + QUOTE + r")(?P<k>[\w.-]{2,80})(?P=q)"
    r"(?:[^\n<>]{0,20}(?i:value)" + QUOTE + r"?\s{0,4}[:=]\s{0,4}" + QUOTE + r"(?P<v>(?:(?!(?P=q))"
    r"[^\n]){1,2000})|"
    r"[^\n<>]{0,100}>(?P<w>[^<\n]{1,2000})<|(?:\r?\n|\\r\\n|\\n){2}(?P<x>[^\r\n\\]{1,2000}))"
)
# What stands between two words of a command line, also of one that is printed as a list.
_GAP = r"(?:[\"']?,\s?[\"']|[ \t]{1,9}[\"']?|[\"'])"
_ARG = r"(?!-)(?P<v>(?<=[\"'])[^\"'\n]{3,256}(?=[\"'])|[^\s\"'|,]{3,256})"
_COMMANDS = (  # program, up to the value
    r"(?:curl|wget|https?|xh)\b[^\n|]{0,200}?\s[\"']?(?:-u|--(?:proxy-)?user|-U|-a|--auth)(?:[\"'],)?[ =]?\s?[\"']?"
    r"(?:[\w.@+-]|\[redacted:\w{1,40}\]){1,80}:",
    r"(?:mysql\w*|mariadb\w*|7z)\b[^\n|]{0,200}?\s[\"']?-p[\"']?(?=[^\s\"'])",
    r"(?:(?:redis|valkey)-cli|sshpass|mongo\w*|(?:docker|podman|helm|oc|az)\b[^\n|]{0,40}login|ldap\w+|sqlcmd|bcp|"
    r"unzip|zip|rabbitmqadmin|mosquitto_\w+|ipmitool|influx|clickhouse-client|cqlsh|plink|pscp|psftp|putty|psexec|twine|"
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
    r"\b(?:config(?:ure)?(?::set)?|secrets?|user-secrets) (?:set|add|put)(?: -\S{1,30})* [\w.:/-]{0,60}"
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
_NAME = r"(?P<k>[\w.-]{2,80})"
_FIELDS = {  # a name and its value as two fields
    "html_field": (
        ("<input", "<meta"),
        r"<(?:input|meta)\b[^<>]{0,200}?\b(?:name|id|property)\s?=\s?\\?[\"']"
        + _NAME
        + r"\\?[\"'][^<>]{0,200}?\b(?:value|content)"
        r"\s?=\s?\\?[\"'](?P<v>[^\"'<>\\]{3,2000})",
    ),
    "html_field_first": (
        ("<input",),
        r"<input\b[^<>]{0,200}?\bvalue\s?=\s?\\?[\"'](?P<v>[^\"'<>\\]{3,2000})\\?[\"'][^<>]{0,200}?\bname\s?=\s?\\?[\"']"
        + _NAME,
    ),
    "plist": (
        ("<key>",),
        r"<key>" + _NAME + r"</key>\s{0,40}<string>(?P<v>[^<\n]{1,2000})",
    ),
    "form_part": (
        ("name=",),
        r"name=\\?\""
        + _NAME
        + r"\\?\"(?:(?:\r?\n|\\r\\n|\\n)[\w-]{3,40}: [^\r\n\\]{1,200}){0,4}(?:\r?\n|\\r\\n|\\n){2}"
        r"(?P<v>[^\r\n\\]{1,2000})",
    ),
    "name_then_value": (
        ("value:",),
        r"\bname:\s{1,4}[\"']?" + _NAME + r"[\"']?\s{0,4}(?:\n\s{0,40}|,\s)value:\s{1,4}[\"']?(?P<v>[^\s\"'}]{1,2000})",
    ),
    "pydantic_input": (
        ("input_value",),
        r"(?:^|\n)(?:[\w.]{1,200}\.)?"
        + _NAME
        + r"\n {1,8}[^\n]{1,300}?input_value=[\"'](?P<v>[^\n]{1,300}?)[\"'], input_type",
    ),
    "pydantic_error": (
        ("'input'", '"input"'),
        r"[\"']" + _NAME + r"[\"']\s?[)\]],[^{}\n]{1,300}?[\"']input[\"']:\s?[\"'](?P<v>[^\"'\n]{1,1000})",
    ),
    "table_row": (
        ("|",),
        r"\|\s{1,20}" + _NAME + r"\s{1,40}\|\s{1,20}(?P<v>(?=[^\s|]*\d)(?=[^\s|]*[A-Za-z])[^\s|]{6,500})",
    ),
    "registry": (("reg_",), _NAME + r"[ \t]{1,20}REG_\w{2,12}[ \t]{1,20}(?P<v>\S{1,500})"),
    "keyword": (
        (":",),
        r":(?<![\w:]:)" + _NAME + r"\s{1,4}\"(?P<v>[^\"\n]{1,1000})",
    ),
}
_PAIRS = (  # user and password handed over side by side
    r"(?i:(?:\blogin|auth\w{0,20}(?:[\"']?\s?[=:]\s?)?|username_pw_set|credentials?|\bPDO(?:->__construct)?|"
    r"getConnection|\bconnect\w{0,12}))\(\s?(?:\([^()\n]{1,100}\),\s?\(|[\"']\w{2,12}:[^\"'\n]{1,100}[\"'],\s?)?"
    r"b?[\"'][^\"'\n]{0,80}[\"'],\s?b?[\"'](?P<v>[^\"'\n]{1,200})[\"']\s?[),]"
)
_SIGNATURE = (
    r"[sS](?i:ignature)[\w-]{0,8}[\"']?\s?[:=]\s?[\"']?(?:\w{1,10}=[^,;\s\"']{1,20},\s?){0,4}"
    r"(?:sha\d{1,3}|v\d|s)=(?P<v>[0-9a-fA-F]{32,128}|[\w+/]{32,128}={0,2})"
)
_DIALOGUES = {  # what clients of text protocols say
    "redis_auth": (
        ("auth ",),
        r"\bAUTH (?:default |[\w.-]{1,40} )?(?P<v>[^\s\"'`]{8,256})(?<![a-z]{8})",
    ),
    "redis_args": (
        ("with args",),
        r"with args beginning with: (?P<v>[^\n;]{3,300})",
    ),
    "smtp_auth": (
        ("auth ",),
        r"\bAUTH (?:PLAIN|LOGIN|XOAUTH2|CRAM-MD5|OAUTHBEARER) (?P<v>[\w+/]{8,2048}={0,2})",
    ),
    "ftp_pass": (
        ("pass ",),
        r"(?s:\bUSER [^\n]{1,80}\n.{0,200}?)\bPASS (?P<v>[^\s\"']{3,256})",
    ),
    "imap_login": (
        (" login ",),
        r"(?<![\w.])[\w.]{1,8} LOGIN [\w.@\"-]{1,80} (?P<v>[^\s]{3,256})",
    ),
    "pragma_key": (
        ("pragma",),
        r"(?i:PRAGMA (?:re)?key)\s?=\s?[\"'](?P<v>[^\"'\n]{3,256})",
    ),
    "pgpass": (
        (":",),
        r":(?<=[\w*-]:)(?:\d{2,5}|\*):(?:[\w.-]{1,64}|\*):[\w.-]{1,64}:(?P<v>[^\s:]{4,128})(?![\w:])",
    ),
    "sql_password": (
        ("identified", "password '"),
        r"(?i:identified (?:with \S{1,60} )?by|with (?:encrypted )?password|set password =?) ?'"
        r"(?P<v>(?=[^'\n]*[^a-z'\n ])[^'\n]{1,256})'",
    ),
    "totp_secret": (
        ("totp(",),
        r"\bTOTP\([\"'](?P<v>[A-Z2-7]{16,128})",
    ),
    "device_config": (
        ("community ", "key ", "password ", "secret "),
        r"(?=[crpskCRPSK])(?:[cC]ommunity|radius-server host \S{1,80} key|[pP]assword [057]|[sS]ecret [0-9]|"
        r"[kK]ey [07]) "
        r"(?![a-z]{3,12}\b)(?P<v>\S{6,128})",
    ),
}
_LINKS = (  # what a link in an e-mail lets its reader do
    r"/(?:reset(?:[-_]?password)?|password[-_]?reset|activat(?:e|ion)|verif(?:y|ication)|confirm(?:ation)?|invit(?:e|ation)|"
    r"magic(?:[-_]?link)?|unsubscribe|ics|calendar|share|public|auth|one[-_]?time)/(?:[A-Za-z0-9=]{1,12}/)?"
    r"(?:private-)?(?P<v>[\w.~-]{20,512})"
)
_URL_KEY = (
    r"[?&](?i:(?:x-)?(?:api[-_]?)?key|appid)=(?P<v>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
    r"[0-9a-f]{32,64})(?![\w-])"
)
_PHRASES = {  # sentences
    "seed_phrase": (
        ("phrase", "mnemonic", "words"),
        r"(?i:seed phrase|mnemonic(?: phrase)?|recovery phrase|seed words|"
        r"backup phrase)[\"']?\W{1,12}(?P<v>(?:[a-z]{3,8}[ ,]{1,2})"
        r"{8,23}[a-z]{3,8})",
    ),
    "passphrase": (
        ("passphrase", "password"),
        r"(?i:passphrase|password)\s[\"“«](?P<v>[^\s\"”»\n]{2,40}(?: [^\s\"”»\n]{2,40}){2,9})[\"”»]",
    ),
    "password_abroad": (
        (
            "passwor",
            "mot de",
            "contras",
            "senha",
            "wachtwoord",
            "hasł",
            "lösenord",
            "пароль",
            "密",
            "パス",
            "비밀",
            "：",
        ),
        r"(?i:passwort|mot de passe|contraseña|senha|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호|"
        r"password(?=\s?[：‹«「]))\s?[:：‹«「]\s?"
        r"(?P<v>[^\s›»」]{6,128})",
    ),
    "passwords": (
        ("password",),
        r"(?i:passwords? (?:tried|reset|changed|set)\b[^:\n]{0,20}?(?: to|:)) (?P<v>[^\s,]{6,80}(?:(?:, |"
        r" and )[^\s,]{6,80}){0,9})",
    ),
    "tried_login": (
        ("tried ", "credential", "in as ", "login as ", "authenticated as "),
        any_word("tried credentials?") + r" [\w.@-]{1,64}:(?P<v>[^\s\"'@:/]{5,128})|"
        r"(?i:in as|login as|authenticated as) [\w.@-]{1,64}:(?P<w>[^\s\"'@:/]{5,128})",
    ),
    "api_key_said": (
        ("key",),
        any_word("api access secret auth client license licence app account subscription")
        + r"[ -](?i:keys?)(?: provided)?:? [\"'`(<]?"
        r"(?P<v>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,64}|(?:[A-Z0-9]{5}-){3,6}[A-Z0-9]{5}|"
        r"[\w-]{3,20}(?:\*{3,}|…|\.{3,})[\w-]{2,20})(?![\w-])",
    ),
    "token_said": (
        ("token",),
        any_word("refresh access api auth bearer device session") + r" ?(?i:token) [\"'`(<]?"
        r"(?P<v>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}(?: [0-9a-f]{8}){3,7}|[0-9a-f]{32,64})(?![\w-])",
    ),
    "backup_codes": (
        ("codes",),
        r"(?i:(?:backup|recovery|scratch) codes?:? )(?P<v>[\w-]{6,20}(?:, [\w-]{6,20}){0,19})",
    ),
    "device_code": (
        ("code",),
        r"(?i:(?:device|user|pairing|link) code:? )[\"'`]?(?P<v>[A-Z0-9]{4}-[A-Z0-9]{4})\b",
    ),
    "recovery_key": (
        ("recovery", "this key"),
        r"(?i:recovery key|(?:enter|"
        r"type) this key)\b[^:\n]{0,30}?:? [\"'`]?(?P<v>(?:[A-Za-z0-9]{4} ){3,15}[A-Za-z0-9]{4})\b",
    ),
    "sms_code": (
        ("g-",),
        r"\bG-(?P<v>\d{6})\b(?=[^\n]{0,40}(?i:code|log ?in|verif|sign in))",
    ),
    "credentials_said": (
        ("credential",),
        r"(?i:credentials?)\b[^:\n]{0,20}: (?P<v>[\w+/]{12,512}={0,2})(?![\w+/=])",
    ),
}

_PARAM = r"[\w-]{1,40}=(?:\\?\"[^\"\n\\]{0,2000}\\?\"|[^\s,\"'\\=]{1,2000}={0,2})"
_AUTHORIZATION = (
    r"[aA](?<!\[redacted:.)(?i:uthorization)"
    + QUOTE
    + r"?\]?\s{0,4}(?:[:=]|%3A|,(?=\s?b?[\"']))\s{0,4}[\[(]?b?"
    + QUOTE
    + r"?"
    r"(?P<k>[A-Za-z][\w-]{1,30}(?: |%20|\+)+)?(?P<v>"
    + _PARAM
    + r"(?:,\s?"
    + _PARAM
    + r"){0,30}|[^\s\"'<>,;&\\)\]}%]{4,4096}(?:\r?\n[ \t]{1,20}[\w+/=]{16,2000})?)"
)
# The password of a DSN may hold `/` and `@`; that of a web address ends before the path.
_USERINFO = (
    r"(?:(?<![pP]:)(?<![pP][sS]:)//[^\s:/?#@\"'<>()%]{0,100}:(?P<x>(?:[^\s\"'<>?:]|:(?!//)){1,256})@|"
    r"(?://|%2F%2F)[^\s:/?#@\"'<>()%]{0,100}(?::|%3A)"
    r"(?:(?P<v>[^\s\"'<>/?#]{1,256})|(?P<w>[^\s\"'<>@]{1,256}))(?:@|%40))(?=[\w.\[(%/-])"
)
_URL_USER = r"//(?:(?P<v>[\w.~%+-]{16,256})@|(?P<w>[0-9a-fA-F]{32,64})(?=:))"
_USERINFO_BARE = (
    r"(?<![\w/.-])[\w.-]{1,64}:(?P<v>[^\s@/:\"'<>]{4,128})@(?:(?:tcp|unix)\(|[\w.-]{1,100}:\d{2,5}(?!\d))|"
    r"(?<![\w/.-])\w{1,32}/(?P<w>[^\s@/\"'<>]{3,64})@/{0,2}[a-zA-Z][\w.-]{0,100}:\d{2,5}/"
)


def _is_argument(m: re.Match[str]) -> bool:
    found = m[group_of(m)]
    placeholder = regex(r"(?i:passw(?:or)?d|pass|pwd|secret|token|pw|[A-Z_]*PASSWORD)").fullmatch(found)
    return not (placeholder or has_marker(found) or is_harmless(found))


def _is_basic(m: re.Match[str]) -> bool:
    try:
        return b":" in base64.b64decode(m["v"] + "=" * (-len(m["v"]) % 4))
    except (binascii.Error, ValueError):
        return False


def _is_credential(m: re.Match[str]) -> bool:
    return not has_marker(m["v"]) and (not is_wordy(m["v"]) or is_random(m["v"])) and not is_harmless(m["v"])


def _is_bearer(m: re.Match[str]) -> bool:
    return _is_credential(m) and not regex(r"[A-Za-z_-]{2,30}=(?!=|\Z)").match(m["v"])  # `Bearer realm="api"`


def _no_port(m: re.Match[str]) -> bool:
    return _is_argument(m) and not regex(r"\d{2,5}[/?#].*").match(m[group_of(m)])


def rules() -> Iterator[Rule]:
    yield Rule("url_userinfo", "userinfo", _USERINFO, ("@", "%40"), check=_no_port)
    yield Rule("url_token", "userinfo", _URL_USER, ("@",), check=lambda m: is_random(m[group_of(m)]))
    yield Rule("userinfo", "userinfo", _USERINFO_BARE, ("@",), check=_no_port)
    yield Rule("auth_header", "authorization", _AUTHORIZATION, ("authorization",), check=_is_credential)
    words = "bearer negotiate ssws geniekey api-key apikey"
    scheme = any_word(words) + r"(?: |%20|\+)+(?P<v>[\w.~+/=-]{12,4096})"
    yield Rule("auth_scheme", "authorization", scheme, tuple(words.split()), check=_is_bearer)
    basic = r"[bB](?i:asic)(?: |%20|\+)+(?P<v>[\w+/-]{6,2048}={0,2})"
    yield Rule("auth_basic", "authorization", basic, ("basic",), check=_is_basic)
    digest = (
        any_word("digest oauth")
        + r"\s(?P<v>(?=[^\n]{0,400}(?:response|signature|token)=)"
        + _PARAM
        + r"(?:,\s?"
        + _PARAM
        + r"){1,30})"
    )
    yield Rule("auth_digest", "authorization", digest, ("digest", "oauth"))
    yield Rule("cookie", "cookie", gates=("cookie",), find=_cookies)
    element = (
        r"<(?P<k>[\w:.-]{2,80})(?:\s[^<>]{0,300})?>\s{0,8}(?:<!\[CDATA\[(?P<v0>[^\n]{1,4096}?)\]\]>|(?:<!\[CDATA\[)?(?:(?P<v>[^<>]{1,4096}?)(?=<|"
        r"\]\])|(?P<w>[^\s<>]{3,4096})\Z))"
    )
    yield Rule("xml_element", "secret", element, ("<",), check=_named)
    yield Rule("name_value", "secret", _NAME_VALUE, ("name", "key", "field"), check=_named)
    for name, (gates, pattern) in _FIELDS.items():
        yield Rule(name, "secret", pattern, gates, check=_named)
    yield Rule("assignment", "secret", gates=("=", ":", "%3d", "%3a", "',", '",', "：", "＝"), find=_assignments)
    yield Rule("flag", "secret", gates=(" -", "'-", '"-'), find=_flags)
    yield Rule("cli_password", "secret", _CLI, _COMMAND_GATES, check=_is_argument)
    yield Rule("piped_password", "secret", _PIPED, ("echo",))
    yield Rule("auth_pair", "secret", _PAIRS, ("('", '("'), check=_is_argument)
    yield Rule("signature", "secret", _SIGNATURE, ("signature",))
    yield Rule("link", "secret", _LINKS, ("/",), check=lambda m: is_random(m["v"]))
    yield Rule("url_key", "secret", _URL_KEY, ("key=", "appid="))
    for name, (gates, pattern) in (*_DIALOGUES.items(), *_PHRASES.items()):
        yield Rule(name, "secret", pattern, gates, check=_is_argument)
    yield Rule(
        "prose_secret",
        "secret",
        _PROSE,
        ("pass", "pwd", "secret", "token", "key", "credential"),
        check=_in_prose,
    )
    code = ("passcode", "otp", "pin ", "pin:", " code", "-code", "password")
    yield Rule("one_time_code", "code", _CODE, code, check=_is_code)
