"""Credentials recognized by their format, as their owners document it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iserror.redact.names import is_random
from iserror.redact.rule import START, Rule, regex

# The tail of a shortened token (`sk-proj-abc...xyz`) is secret too.
CUT = r"(?:(?:\.{3}|…|\*{3,256}|[+/=](?=[\w+/=-]{12}))[\w/+=-]{3,})?"

# Prefixes that owners give their tokens. A body of sixteen characters or more follows.
_PREFIXES = {
    "anthropic_key": "sk-ant-",
    "openai_key": "sk-proj- sk-svcacct- sk-admin- sk-or-v1- sk-lf-",
    "github_token": "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
    "gitlab_token": "glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glwt- glsoat- "
    "glffct- GR1348941",
    "google_key": "AIza ya29. GOCSPX- 1//0 AQ.Ab GOOG1",
    "slack_token": "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe.xoxp- xoxe.xoxb- xoxp- xoxr- xoxs- xapp-",
    "stripe_key": "sk_live_ sk_test_ rk_live_ rk_test_",
    "sendgrid_key": "SG.",
    "mail_key": "xkeysib- xsmtpsib- re_ md-",
    "npm_token": "npm_",
    "package_token": "pypi-Ag rubygems_ oy2 cio CLOJARS_ AKCp cmVmdGtu",
    "docker_token": "dckr_pat_ dckr_oat_",
    "huggingface_token": "hf_ api_org_",
    "digitalocean_token": "dop_v1_ doo_v1_ dor_v1_ dos_v1_ dot_v1_",
    "shopify_token": "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_",
    "square_token": "sq0atp- sq0csp- sq0idp- EAAA EAAl",
    "facebook_token": "EAAC EAAB EAAG EAAD",
    "atlassian_token": "ATATT3 ATCTT3 ATBB ATCBB",
    "vault_token": "hvs. hvb. hvr.",
    "ai_key": (
        "xai- sess- llx- BSA gsk_ pplx- r8_ nvapi- lsv2_pt_ lsv2_sk_ pcsk_ tvly- fc- e2b_ jina_ csk- fw_ tgp_v1_ "
        "apify_api_ rpa_ "
        "wandb_v1_ sk_ co_ sk-"
    ),
    "cloud_token": (
        "dapi dkea dose HRKU- fo1_ fm1_ fm2_ FlyV1 nfp_ nfc_ nfo_ nfu_ nfb_ sbp_ sb_secret_ pscale_tkn_ "
        "pscale_pw_ "
        "pscale_oauth_ napi_ npg_ tskey- pul- vcp_ vci_ vca_ vcr_ vck_ cfut_ cfat_ cfk_ v1.0- "
        "ocid1.credential CCDB1_ AVNS_ 4b1d da2- "
        "AKID t1. y0_ AQVN ory_ sha256~ "
    ),
    "vendor_token": (
        "glc_ glsa_ NRAK- NRII- NRAA- NRRA- sntrys_ sntryu_ sntrya_ lin_api_ lin_oauth_ ntn_ secret_ "
        "figd_ figo_ figu_ figr_ "
        "ops_eyJ PMAK- access-sandbox- access-development- access-production- access_token$ sl.u. sl.B "
        "dt0c01. dt0s01. dt0s02. snyk_uat. snyk_sat. polar_oat_ polar_pat_ nyk_v0_ ico- APP_USR- xnd_ pdl_ Mid-server- "
        "live_ amzn.mws. eyJrIjoi dG9rOg MDAx MDAy API- 5Aep861 pat. "
        "EZAK EZTK FLWSECK- FLWSECK_TEST- duffel_live_ duffel_test_ CFPAT- fio-u- pnu_ rdme_ sgp_ tfp_ "
        "CCIPAT_ CCIPRJ_ bkua_ "
        "sqp_ squ_ sqa_ phx_ aio_ rzp_live_ rzp_test_ shippo_live_ shippo_test_ "
        "AGE-SECRET-KEY-1 pat-na1- pat-eu1- sdk- api- mob- patt_ pk_live_sk_ oauth2_ ghcr_ tok_live_ "
        "key_live_ lip_ api_live_ "
        "test_sk_ live_sk_ hcaik_ hcalk_ rnd_ ubi_ dnkey- Zapier- TK-"
    ),
}

# Kind: gates (separated by spaces), the length of the shortest token, and a pattern.
_FORMATS = {
    "stripe_key": ("whsec_", 20, r"whsec_[\w+/=-]{20,}"),
    "aws_session_token": (
        "igojb3jpz2lu iqojb3jpz2lu fwogzxivyxdz fqogzxivyxdz absk bedrock-api-key-",
        16,
        START + r"(?:I[Qg]oJb3JpZ2lu|F[wQ]oGZXIvYXdz|ABSK|bedrock-api-key-)[\w+/=%-]{20,}",
    ),
    "aws_key": (
        "akia asia abia acca ltai",
        20,
        r"(?:(?:AKIA|ASIA|ABIA|ACCA)(?:(?<![A-Za-z0-9]....)|(?<=\\[nrt]....))[A-Z0-9]{16}(?![A-Z0-9])"
        r"|LTAI(?<![A-Za-z0-9]....)[A-Za-z0-9]{12,24}(?![A-Za-z0-9]))"
        r"(?:[\"']?[ ,:;/|]{1,3}[\"']?[\w/+]{30,40}(?![\w/+=]))?",
    ),
    "google_key": (":apa91b goog", 0, r"AAAA[\w-]{7}:[\w-]{100,}|GOOG[A-Z0-9]{20,60}"),
    "slack_webhook": (
        "hooks.slack",
        0,
        r"hooks\.slack(?:-gov)?\.com/(?:services|triggers|"
        r"workflows)/(?P<v>[\w/-]{16,})",
    ),
    "discord_webhook": ("/webhooks/", 0, r"discord(?:app)?\.com/api(?:/v\d{1,4})?/webhooks/(?P<v>[\w/-]{20,})"),
    "webhook": (
        "webhook hook/ hooks/ hc-ping.com",
        0,
        r"webhook\.office\.com/webhookb2/(?P<v>[\w@/-]{36,})|hooks\.zapier\.com/hooks/catch/(?P<w>[\w/]{6,})|"
        r"/(?:open-apis/bot/v2/hook|hooks?|hc-ping\.com|webhooks?)/(?P<x>[A-Za-z0-9-]{20,})",
    ),
    "twilio_key": ("sk", 34, r"SK(?:(?<![A-Za-z0-9]..)|(?<=\\[nrt]..))[0-9a-fA-F]{32}(?![0-9A-Za-z])"),
    "mail_key": (
        "key- -us -",
        36,
        r"(?:key-[0-9a-f]{32}|[0-9a-f](?<![\w-].)[0-9a-f]{31}-(?:us\d{1,2}|"
        r"[0-9a-f]{8}-[0-9a-f]{8}))(?![\w-])",
    ),
    "telegram_token": (":a", 35, r"(?<!\d)\d{6,12}:A[\w-]{34}(?![\w-])"),
    "discord_token": (
        ".",
        58,
        r"[MNO](?:(?<![\w-].)|(?<=\\[nrt].))[\w-]{22,27}\.[\w-]{6,7}\.[\w-]{27,}|"
        r"mfa\.[\w-]{80,}",
    ),
    "azure_secret": (
        "q~ azdo azse jqqj99 azfu +a",
        34,
        r"[\w.~-]{3}\dQ~[\w.~-]{30,}|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6,8}|"
        r"[A-Za-z0-9]{50,56}JQQJ99[A-Za-z0-9]{20,}|"
        r"[\w-]{40,48}AzFu[\w-]{4,8}={0,2}|[\w/+]{30,76}\+(?:ASt|ARm|ASb|AEh|AIo|ACR|ABa)[\w/+]{4,12}={0,2}",
    ),
    "vendor_token": (
        ".atlasv1. mmk nral .hcp. pat sk.eyj dp.",
        34,
        START + r"(?:\w{14}\.(?:atlasv1|hcp)\.[\w-]{50,}|\w{6}_\w{29}_mmk|[0-9a-fA-F]{36,40}NRAL|"
        r"pat[A-Za-z0-9]{14}\.[0-9a-f]{60,}|"
        r"sk\.eyJ[\w.-]{20,}|dp\.[a-z]{2,5}\.[\w.-]{36,})",
    ),
    "asana_token": ("1/ 2/", 32, r"(?<![\w/])[12]/\d{12,20}(?:/\d{12,20})?:[0-9a-f]{32}"),
    "paseto": ("local. public.", 24, START + r"v[1-4]\.(?:local|public)\.[\w-]{20,4096}(?:\.[\w-]{2,1024})?"),
    "salesforce_token": ("! %21", 0, r"00D[A-Za-z0-9]{12,15}(?:!|%21)[\w.=-]{40,200}"),
    "private_key": (
        "xprv yprv zprv tprv nsec1",
        50,
        START + r"(?:[xyzt]prv[1-9A-HJ-NP-Za-km-z]{50,120}|nsec1[02-9ac-hj-np-z]{50,70})",
    ),
    "wallet_key": ("", 51, r"(?<![\w/+.-])(?:[KL][1-9A-HJ-NP-Za-km-z]{51}|5[1-9A-HJ-NP-Za-km-z]{50})(?![\w/+=-])"),
    "ai_key": ("ek_ key_", 34, START + r"(?:ek|key)_[0-9a-f]{32,64}(?![\w-])"),
    "cloud_token": ("0.a 1.a", 50, START + r"[01]\.A[\w-]{40,400}(?:\.[\w-]{20,2000}){0,3}"),
    "twitter_token": ("aaaaaaaaaaaaaaaaaaaa", 0, r"A{20,30}[\w%+/=-]{30,200}"),
    "dropbox_token": ("sl.", 60, START + r"sl\.(?:[a-zA-Z]\.)?[\w-]{60,2000}"),
    "onepassword_key": ("a3-", 30, START + r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{5,6}-?){4,6}(?![A-Z0-9])"),
    "webhook_path": (
        "/with/key/ .make.com/ webhook/send?key=",
        0,
        r"/with/key/(?P<v>[\w-]{10,60})|hook\.[\w.]{2,20}\.make\.com/(?P<w>[\w-]{16,60})|"
        r"webhook/send\?key=(?P<x>[\w-]{16,64})",
    ),
    "password_digest": (
        ": *",
        32,
        r"[:*](?:(?:(?<=\s:)|(?<=[0-9a-fA-F]{32}:))(?P<v>[0-9a-fA-F]{32})(?=:|\b)|(?<!\w\*)(?<=\*)(?P<w>[0-9A-F]{40})\b)",
    ),
    "password_hash": (
        "$ } scram-",
        0,
        r"(?<!\w)\$(?:2[abxy]?|[1567y]|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]{0,40}|bcrypt[\w-]{0,40}|"
        r"md5)\$[^\s\"'<>;]{8,512}|"
        r"(?:pbkdf2|argon2|bcrypt|scrypt|md5|sha1|sha256|"
        r"sha512)(?:[_:]\w{1,40}){0,4}\$[^\s\"'<>;$]{1,64}\$[^\s\"'<>;]{8,512}|"
        r"\{S?(?:SHA|MD5|CRYPT)\d{0,3}\}[\w+/=$.]{16,}|SCRAM-SHA-\d{1,4}\$[\w+/=$:]{20,}",
    ),
}

# Formats without an owner, tried last.
_SHAPES = {
    "jwt": (
        "eyj",
        16,
        # A header without a payload is consumed, too, so that it is read once. `_has_payload` rejects it.
        START + r"eyJ[\w-]{8,4096}(?P<payload>(?:\.|%2E)(?=\.{0,2}[\w-]{2})[\w-]{0,8192}(?:(?:\.|"
        r"%2E)[\w-]{0,8192}){0,3}" + CUT + r")?",
    ),
    # 256 and 512 bits in base64. A digest of that length has a label.
    "base64_key": (
        "=",
        0,
        r"(?<![\w+/=-])(?<!sha256-)(?<!sha512-)(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{86}==)(?![\w+/=])" + CUT,
    ),
}

# Many vendors chose one shape: name_live_..., name-pat-..., name_v1_..., or a name before a long random body.
_VENDOR_WORD = r"[_-](?:live|test|pat|sk|secret|api|key|token|v1)[_-]"
_PREFIXED = (
    START + r"(?:[A-Za-z][A-Za-z0-9]{1,15}" + _VENDOR_WORD + r"(?:[a-z]{2,8}[_-])?"
    r"[A-Za-z0-9]{20,}|(?!(?i:sha|etag|cursor|page|rev|chatcmpl|cs_|req|file))"
    r"[A-Za-z][A-Za-z0-9]{1,19}(?:[_-][A-Za-z0-9]{1,12}){0,3}[_-]"
    r"(?=[a-z0-9]{0,80}[A-Z])(?=[A-Z0-9]{0,80}[a-z])(?=[A-Za-z]{0,80}\d)[A-Za-z0-9]{30,200}(?![\w-]))" + CUT
)


def _prefixed(text: str) -> Iterator[tuple[int, int]]:
    """Find tokens of unknown owners by the shape of a prefix and a random body."""
    for word in regex(r"(?<![\w-])[\w-]{24,}").finditer(text):
        found = word.group()
        # UUIDs and names of several words don't look like a token of this shape.
        if not (regex(r"\d").search(found) and regex(r"[A-Za-z0-9]{20}").search(found)) or (
            found.islower() and not regex(_VENDOR_WORD).search(found)
        ):
            continue
        for m in regex(_PREFIXED).finditer(text, word.start(), word.end() + 256):
            if m.start() >= word.end():
                break
            yield m.span()


_PEM = (
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:(?:[^-]|"
    r"-(?!---)){0,32768}-{4,5} ?END [A-Z0-9 ]{1,60}-{4,5}|"
    # Cut off, without an END.
    r"(?:(?:\s|\\[nr]){0,80}[\w+/=]{16,100}){0,400}(?:(?:\s|\\[nr]){0,80}[\w+/]{1,100}={0,4}(?![\w ]))?)"
)


def _has_body(m: re.Match[str]) -> bool:
    body = m["body"]
    return (sum(c.isdigit() for c in body) > 1 or is_random(body)) and (
        m["p"] not in ("sk-", "sk_", "co_") or is_random(body)
    )


def _is_key(m: re.Match[str]) -> bool:
    """Return True if base64 of a key's length is random and has no label of a digest, cursor or signature."""
    before = m.string[max(0, m.start() - 24) : m.start()].lower()
    if re.search(
        r"(?:sha|md5|digest|integrity|checksum|etag|cursor|page|next|continu|finger|version|public|scroll|h1:)", before
    ):
        return False
    return all(re.search(c, m[0]) for c in ("[a-z]", "[A-Z]", "[0-9]"))


def _has_payload(m: re.Match[str]) -> bool:
    return m["payload"] is not None


_CHECKS = {"base64_key": _is_key, "wallet_key": _is_key, "jwt": _has_payload}


def rules() -> Iterator[Rule]:
    yield Rule("private_key", "private_key", _PEM, ("private key",))
    putty = (
        r"Private-Lines: \d{1,9}(?P<v>(?:\s|\\[nr]){1,40}(?:[\w+/=]{16,80}(?:\s|\\[nr]){0,40}){1,200})|"
        r"Private-MAC: (?P<w>[0-9a-f]{40,64})"
    )
    yield Rule("putty_key", "private_key", putty, ("private-lines", "private-mac"))
    jwk = r"[\"'](?:d|p|q|dp|dq|qi|k)\\?[\"']\s?:\s?\\?[\"'](?P<v>[\w-]{20,2000})"
    yield Rule("jwk", "private_key", jwk, ('"kty', "'kty", "kty\\"))
    for kind, (gates, run, pattern) in _FORMATS.items():
        name = f"{kind}_format" if kind in _PREFIXES or kind == "private_key" else kind
        yield Rule(name, kind, f"(?:{pattern}){CUT}", tuple(gates.split()), run, check=_CHECKS.get(kind))
    for kind, prefixes in _PREFIXES.items():
        starts = prefixes.split()
        low = [start.lower() for start in starts]
        pattern = (
            START + r"(?P<p>" + "|".join(map(re.escape, starts)) + r")(?P<body>[\w-]{14,}"
            r"(?:[.~$][\w-]{2,}){0,20}(?:=[0-9A-Fa-f]{8}(?!\w)|={0,2})|"
            r"[\w-]{6,64}(?:[.~$][\w-]{3,}){1,20}|[\w-]{6,13}(?=\.{3}|…|\*{3}))" + CUT
        )
        yield Rule(
            kind,
            kind,
            pattern,
            tuple(w for w in low if not w[:2].isalnum()),
            16,
            check=_has_body,
            starts=tuple(w for w in low if w[:2].isalnum()),
        )
    for kind, (gates, run, pattern) in _SHAPES.items():
        yield Rule(kind, kind, pattern, tuple(gates.split()), run, check=_CHECKS.get(kind))
    yield Rule("prefixed_token", "prefixed_token", gates=("_", "-"), run=24, find=_prefixed)
