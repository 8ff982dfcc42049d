"""Frames and whole stack traces of many languages."""

from __future__ import annotations

from collections.abc import Iterator

from iserror.redact.rule import Rule, model_rule, regex

_NL = r"(?:\r?\n|(?:\\r)?\\n|\A)"
_PYTHON = (
    r"[ |]{0,200}File (?:\\{0,3}\"|&quot;)[^\"\n]{1,500}?(?:\"|&quot;), line \d{1,7}"
    r"(?:,? in (?:<\w{1,40}>|top-level [a-z ]{4,20}|[\w.<>$]{1,200}))?(?!\w)"
    r"(?:" + _NL + r"(?: {0,80}\|){0,20} {4,80}(?!File )(?=[^\s|])(?:(?!\\n)[^\n]){1,1000}){0,3}"
)
_JAVA = (
    r"(?:at (?:(?<!\w...)|(?<=\\t...)|(?<=&nbsp;...))(?:\w{1,40} @ )?|(?<=[\[,] )|(?<=\[))"
    r"(?:[\w.$@-]{1,80}/{1,2}){0,2}(?:[\w$.<>@-]|&[lg]t;){3,300}\("
    r"(?:[\w$.-]{1,100}\.(?:java|kt|scala|groovy|clj)(?::\d{1,6})?|Unknown Source|Native Method|<\w{1,40}>)\)"
    r"(?: ~?\[[^\]\n]{0,200}\])?(?:\s{0,8}(?:\\n|\\t){0,8}\.\.\. \d{1,4} (?:more|common frames omitted))?"
)
_NODE = (
    r"at (?<!\w...)(?:(?:async |new )?[^\n():]{1,200} \((?:[^\n()]{1,400}:\d{1,7}:\d{1,7}|native|"
    r"<anonymous>|index \d{1,7})\)|"
    r"(?:async )?(?:node:|file:|webpack|https?:|/|[A-Za-z]:[\\/])[^\s()]{1,400}:\d{1,7}:\d{1,7})|"
    r"(?m:^)[\w$.<>/*]{0,100}@(?:https?|file|webpack|moz-extension)[^\s()]{3,400}:\d{1,7}:\d{1,7}"
)
_DOTNET = (
    r"at (?<!\w...)[\w.`<>+\[\],$|]{3,300}\([^()\n]{0,400}\) in [^\n\"]{1,400}?:line \d{1,7}|"
    r"at (?<=[ \t][ \t]at )[\w`<>+\[\],$|]{1,200}\.[\w.`<>+\[\],$|]{2,300}\([^()\n]{0,400}\)|"
    r"--- End of (?:inner exception )?stack trace[^\n\\]{0,60}---"
)
_GO = (
    r"goroutine \d{1,9} \[[^\]\n]{1,80}\]:|created by [^\n\\]{1,200}(?:\n|\\n)(?:\t|\\t)[^\s\"]{1,400}|"
    r"(?:(?<![^\n|])|(?<=\\n)|(?<=\")|(?<=: ))[ ]{0,4}[\w./*()~{}\[\]$-]{2,300}(?:\([^()\n]{0,200}\)|\.\.\.)?"
    r"(?:\n|\\n)(?:[ |]{0,6}\t|\\t| {4,8})[^\s\"]{1,400}\.(?:go|s):\d{1,7}(?: \+0x[0-9a-f]{1,12})?"
)
_RUST = (
    r"(?<!\S)\d{1,3}:\s{1,4}(?:0x[0-9a-f]{4,16} - )?[<\w][\w:<>{}$& ,\[\]*'()=>-]{2,300}?(?:\n|"
    r"\\n)\s{1,40}at [^\s\"]{1,400}:\d{1,7}(?::\d{1,7})?|"
    r"(?<!\S)\d{1,3}:\s{1,4}(?:0x[0-9a-f]{4,16} - )?(?:<[^\n>]{1,200}>|"
    r"[\w$]{1,100})(?:::[\w<>{}$&, #\[\]]{1,100}){1,12}(?=\n|\\n|\Z)|"
    r"panicked at (?P<v>[^\s,]{1,300}:\d{1,7}:\d{1,7})"
)
_HEX = r"0x[0-9a-fA-F]{4,16}"
_PLACE = r"[\w)\]>]\.\w{1,6}:\d"  # a file with a line
# Frames that begin a line, by their sure signs. A frame extends to the end of the line.
_FRAMES = (
    # PHP, gdb, sanitizers, Dart; boost; glog
    r"#\d{1,3}\s{1,4}(?=[^\n]{0,300}(?:"
    + _HEX
    + r"|"
    + _PLACE
    + r"|\.\w{1,6}\(\d{1,6}\): |\{main\}|\[internal function\]|virt ))",
    r"\d{1,3}#\s(?=[^\n]{0,300}(?:::| in /| at ))",
    r"@\s{1,8}" + _HEX + r"\s",
    # Swift, Kotlin native, Rust, WebAssembly
    r"(?:at )?\d{1,3}[:.]?\s{1,8}(?:\[\w{1,6}\] )?(?:[\w.+-]{1,80}\s{1,40})?0x[0-9a-fA-F]{4,16}\s",
    r"\d{1,3}:\s{1,4}__?\w{1,80}(?=\n\s{1,40}at )|at \./[^\s:]{1,200}:\d{1,7}:\d{1,7}",
    # "at", in the words of several languages
    r"(?:at|from|in|bei|à|w|en|em|da|by)\s(?=[^\n]{0,400}?(?:"
    + _PLACE
    + r"|:(?:line|Zeile|ligne|línea|wiersz|riga|linha) ?\d|"
    r"\.\w{1,6}[,:]? line \d|\[" + _HEX + r"\] in |wasm-function\[|\]:" + _HEX + r"|\[native code\]))",
    r"at (?:<\w{1,40}>, <[\w ]{1,40}>: line \d|\w{1,40}:\w{1,60}\(\w{0,60}\)(?!\S)|\w{1,80}\(Closure\b)|"
    r"at REPL\d{1,5}:\d",
    r"(?:bei|à|w|en)\s[\w`<>+\[\],$|]{1,200}\.[\w.`<>+\[\],$|]{2,300}\([^()\n]{0,400}\)",
    # Ruby, Lua, Python in a box, IPython, Elixir
    r"(?:from )?\S{1,300}:\d{1,7}:? in (?:function|upvalue|main chunk|local|method|field|[`'<\w])",
    r"\[(?:C|string \"[^\"\n]{1,100}\")\](?::\d{1,7})?: in |\(\.\.\.tail calls\.\.\.\)",
    r"File /\S{1,300}:\d{1,7}, in |(?:lib|test|src)/\S{1,200}\.exs?:\d{1,7}: |iex:\d{1,7}: |"
    r"\([\w.-]{1,60} [\d.]{1,20}\) \S{1,200}\.(?:exs?|erl):\d{1,7}: ",
    # browsers, Dart
    r"[\w$.<>/ *]{0,100}@(?:https?:|webpack|file:|blob:|\w{2,20}-extension:|\[(?:native|wasm) code\])|"
    r"\[(?:native|wasm) code\](?=\n)",
    r"<\?>\.wasm-function\[",
    r"(?:package|dart):\S{1,200} \d{1,6}:\d{1,6}\s",
    # glibc, WinDbg, PHP, R, Perl, Go
    r"\S{1,200}\([^()\s]{0,200}\+"
    + "0x[0-9a-f]{1,16}"
    + r"\)\s?\[0x[0-9a-f]{4,16}\]|\w{1,60}![\w:<>~]{1,200}\+0x[0-9a-f]{1,8}",
    r"PHP\s{1,4}\d{1,3}\. |\d{1,3}: (?=[^\n]{1,300} at [^\s#]{1,200}#\d)|\d{1,3}\. [│├└─ ]{1,40}\w[\w.]{0,60}:{2,3}\w",
    r"[\w:{} .]{1,200}(?:\([^()\n]{0,300}(?:\([^()\n]{0,100}\)[^()\n]{0,100}){0,4}\))?\s?"
    r"called at (?=[^\n]{1,300} line \d)",
    # shells, Haskell, Julia, PowerShell
    r"/\S{1,200}: line \d{1,7}: |\w{1,60}, called at (?=\S{1,300}:\d)|"
    r"\[\d{1,3}\] [^\n]{1,300}\n\s{1,20}@ (?=[^\n]{1,300}:\d)|"
    r"At (?=[^\n]{1,300}:\d{1,7} char:\d)(?:[^\n]{1,400}(?:\n\+[^\n]{0,300}){1,3})?",
    r"\S{1,300}\.go:\d{1,7} \(0x[0-9a-f]{4,16}\)(?:\n\t[^\n]{1,300})?",
)
_FRAME = r"(?:[ \t│|]|\\t|&nbsp;){0,80}(?P<v>(?:" + "|".join(_FRAMES) + r")(?:(?!\\n|<br|\"[,\]}])[^\n]){0,600})"
# Every frame has one of these signs within 200 characters, and looks as below. Most lines have no sign.
_SIGN = r"[:(#@\[]|line \d|0x"
_LIKE_A_FRAME = (
    r"[^\n:(#@\[]{0,200}(?:[:(#]\d|line \d|0x|\([^\n]{0,400}\)|@|\[(?:C|native|string|wasm|0x)|"
    r"[:\[#][^\n]{0,300}[\d)])"
)


def _frames(text: str) -> Iterator[tuple[int, int]]:
    """Find stack frames that fill a line, also if the line breaks are escaped or HTML."""
    frame = regex(_FRAME).match
    starts = (
        m.end() for m in regex(r"[\n\\<\[\"](?:(?<=\n)(?!\n)|(?<=\\)n|(?<=<)br ?/?>|(?<=\")(?=#))").finditer(text)
    )
    sign = -1  # where the next sign begins: found once, not once per line
    for at in (0, *starts):
        if sign < at:
            found = regex(_SIGN).search(text, at)
            if not found:
                return
            sign = found.start()
        if sign - at > 200 or not regex(_LIKE_A_FRAME).match(text, at):
            continue
        m = frame(text, at)
        if m:
            yield m.span("v")


# Frames that may be anywhere in a line.
_OTHER_FRAMES = (
    r"#\d{1,3} \{main\}|#\d{1,3}\s{1,2}(?:0x[0-9a-f]{4,16} in )?"
    r"(?=[^\n#]{1,200}(?:\.\w{1,6}\(\d{1,6}\): |\bat [^\n\s]{1,200}:\d))"
    r"[^\n]{1,600}|(?<![^\s\"'(])(?:\(eval at [^\s()]{1,200}\)|[^\s:\"']{1,300}\.(?:rb|erb|rake|exs?|"
    r"erl)):\d{1,7}:in [`'][^'\n]{1,200}'|"
    r"\([\w.-]{1,60} [\d.]{3,20}\) [\w/.-]{3,200}\.exs?:\d{1,6}: [^\n]{1,200}|"
    r"\bat (?:/[^\s]{1,300}|\(eval \d{1,6}\)) line \d{1,7}(?:, <\w{1,20}> line \d{1,9})?\.?|"
    r"\{\w{1,80},\w{1,80},(?:\d{1,3}|\[[^\[\]\n]{0,200}\]),\s{0,8}\[(?:\{file,[^\[\]]{1,400}\})?\]\}|"
    r"(?<=in )(?:function\s{1,3}|call from\s{1,3})?\w{1,80}:\w{1,80}/\d{1,3}(?: \([^()\n]{1,200}, line \d{1,7}\)|"
    r" line \d{1,7})|"
    r"\{ fn: \"[^\"\n]{1,200}\", file: \"[^\"\n]{1,300}\", line: \d{1,7} \}|"
    r"(?<=\(from )[^\s()]{1,200}\.R#\d{1,7}|(?<=Calls: )[\w.$:]{1,100}(?: -> [\w.$:<>]{1,100}){1,20}|"
    r"(?<=Error in )[\w.:$]{1,80}\([^\n]{0,200}\)(?= : )"
)


def rules() -> Iterator[Rule]:
    yield model_rule("trace_python", "trace", _PYTHON, ", line ")
    yield model_rule("trace_java", "trace", _JAVA, "at |.java:|.kt:|.scala:")
    yield model_rule("trace_rust", "trace", _RUST, "::|panicked at|: _")
    yield model_rule("trace_node", "trace", _NODE, "at |@http|@file|@webpack|@moz")
    yield model_rule("trace_dotnet", "trace", _DOTNET, "at |stack trace")
    yield model_rule("trace_go", "trace", _GO, ".go:|.s:|goroutine ")
    yield model_rule(
        "trace_other",
        "trace",
        _OTHER_FRAMES,
        "#|.rb:|.erb:|.ex:|.exs:|.erl:| line |eval at|in function|in call|{file|,[|fn:|error in|calls:|.r#",
    )
    yield Rule("trace_frame", "trace", gates=("\n", "\\n", "<br", "#"), profiles=("model",), find=_frames)
