"""Credentials behind a name: assignments, fields, elements and flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from iserror.redact.names import counts, grade_of, is_wordy
from iserror.redact.rule import MARK, QUOTE, Rule, any_word, group_of, is_marked, regex

# The name is matched backwards from what separates it from its value.
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
    # Bare: `&`, `,` and `;` end it before another key, a blank or the end. Brackets end it before a non-word.
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
        if value.lastgroup == "b" and found.isidentifier():  # `{api_key}` is a placeholder
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
            # The first item of a tuple is a name only as a whole.
            if sep != "," or text[max(0, first - 1) : first] in ("'", '"'):
                yield key, "=" if sep[0] == "%" and "d" in sep.lower() else sep, m.end()

    return _assigned(text, named())


def _flags(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names behind the flags of a command line."""
    return _assigned(text, ((m["k"], m["s"] or ",", m.end()) for m in regex(_FLAG).finditer(text) if grade_of(m["k"])))


def _named(m: re.Match[str]) -> bool:
    value = m[group_of(m)].strip()
    if " " in value and all(map(is_wordy, value.split())):
        return False
    return counts(grade_of(m["k"]), value)


_NAME_VALUE = (
    any_word("name key field") + QUOTE + r"?\s{0,4}[:=]\s{0,4}(?P<q>" + QUOTE + r")(?P<k>[\w.-]{2,80})(?P=q)"
    r"(?:[^\n<>]{0,20}(?i:value)" + QUOTE + r"?\s{0,4}[:=]\s{0,4}" + QUOTE + r"(?P<v>(?:(?!(?P=q))"
    r"[^\n]){1,2000})|"
    r"[^\n<>]{0,100}>(?P<w>[^<\n]{1,2000})<|(?:\r?\n|\\r\\n|\\n){2}(?P<x>[^\r\n\\]{1,2000}))"
)
_NAME = r"(?P<k>[\w.-]{2,80})"
_FIELDS = {
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
        r"\|\s{1,20}" + _NAME + r"\s{1,40}\|\s{1,20}(?P<v>(?=[^\s|]{0,500}\d)(?=[^\s|]{0,500}[A-Za-z])[^\s|]{6,500})",
    ),
    "registry": (("reg_",), r"(?<![\w.-])" + _NAME + r"[ \t]{1,20}REG_\w{2,12}[ \t]{1,20}(?P<v>\S{1,500})"),
    "keyword": (
        (":",),
        r":(?<![\w:]:)" + _NAME + r"\s{1,4}\"(?P<v>[^\"\n]{1,1000})",
    ),
}


def rules() -> Iterator[Rule]:
    element = (
        r"<(?P<k>[\w:.-]{2,80})(?:\s[^<>]{0,300})?>\s{0,8}(?:<!\[CDATA\[(?P<v0>(?:[^\n<]|<(?!!\[CDATA\[)){1,4096}?)\]\]>|(?:<!\[CDATA\[)?(?:(?P<v>[^<>]{1,4096}?)(?=<|"
        r"\]\])|(?P<w>[^\s<>]{3,4096})\Z))"
    )
    yield Rule("xml_element", "secret", element, ("<",), check=_named)
    yield Rule("name_value", "secret", _NAME_VALUE, ("name", "key", "field"), check=_named)
    for name, (gates, pattern) in _FIELDS.items():
        yield Rule(name, "secret", pattern, gates, check=_named)
    yield Rule("assignment", "secret", gates=("=", ":", "%3d", "%3a", "',", '",', "：", "＝"), find=_assignments)
    yield Rule("flag", "secret", gates=(" -", "'-", '"-'), find=_flags)
