"""What a browser is sent of our sources: everything but what only their readers need.

Comments, indents, blanks round signs and line ends after them go, and `const` becomes `let`; every name stays. The
sources are in static/.
"""

from __future__ import annotations

import re

TEXT = r""""(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`"""
REGEX = r"(?:(?<=[(,=:!&|?])|(?<=[(,=:!&|?] ))/(?![/* ])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/"
COMMENT = r"//[^\n]*|/\*[\s\S]*?\*/"
SIGN = r"[=<>!&|?:*%,;(){}\[\]]+|/(?=[ ])|(?<![+-][ ])[+-]=?(?![ ][+-])"
PIECE = re.compile(rf"(?P<kept>{TEXT}|{REGEX})|{COMMENT}|[ ]?(?P<sign>{SIGN})[ ]?")
HOLE, IN_HOLE = re.compile(r"\$\{[^{}]*\}"), r'("[^"]*")|[ ]?([=<>!&|?:*,+]+)[ ]?'  # of a template
SHORTER = (
    (r"\s*\n\s*", "\n"),
    (r"(?<=[;,{}(\[>&|?:=])\n|\n(?=[})\].?:&|])", ""),
    (r"[;,](?=\})|,(?=[\])])", ""),
    (r"(?<![\w)])\((\w+)\)=>", r"\1=>"),
    (r"(?<![\w.])0(?=\.\d)", ""),
    (r"\b(return|of|in|case|await) (?=\0)", r"\1"),
)


def script(text: str) -> str:
    """Of a section of JavaScript."""
    kept: list[str] = []

    def bare(found: re.Match[str]) -> str:
        if found["kept"] is None:
            return found["sign"] or ""
        kept.append(HOLE.sub(lambda hole: re.sub(IN_HOLE, r"\1\2", hole[0]), found["kept"]))
        return f"\0{len(kept) - 1}\0"

    text = PIECE.sub(bare, text)
    for spare, left in SHORTER:
        text = re.sub(spare, left, text)
    text = _joined(re.sub(r"\bconst\b", "let", text.strip()))
    return re.sub("\0(\\d+)\0", lambda place: kept[int(place[1])], text)


def _joined(text: str) -> str:
    """Declarations that follow each other as one; each goes on to the next `;` in the same pair of brackets."""
    declaring = [False]  # by depth of brackets

    def piece(found: re.Match[str]) -> str:
        if found["opens"]:
            declaring.append(False)
        elif found["closes"]:
            declaring.pop()
        elif found["let"] and found["end"] and declaring[-1]:
            return ","
        else:
            declaring[-1] = bool(found["let"])
        return found[0]

    return re.sub(r"(?P<opens>[(\[{])|(?P<closes>[)\]}])|(?P<end>;)?\n?(?P<let>\blet\b ?)|;", piece, text)


def style(text: str) -> str:
    """Of a style sheet."""
    words = " ".join(re.sub(r"/\*[\s\S]*?\*/", "", text).split())
    return re.sub(r"\s*([{};,>])\s*|(:) ", r"\1\2", words).replace(";}", "}").replace(" !", "!")
