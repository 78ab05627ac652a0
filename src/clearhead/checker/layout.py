"""The order of the axes that the learner's arrays have, as letters: b samples, h heads, t tokens, d features.

Ours are "bhtd", "btd" and "td"; "" means ours. A layout without t takes one token at a time, without its axis.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from clearhead.checker.source import Source, shape_words

OURS = {2: "td", 3: "btd", 4: "bhtd"}
WIDE = r"d|c|e|d_?[kvqh]|c_?[kvqh]|dim\w*|d_\w+|feat\w*|channels?|width|hidden\w*|emb\w*|head_(dim|size)|\w+_dim|size"
SHAPE = r"[(\[]((?:[A-Za-z_]\w*, *){2,3}[A-Za-z_]\w*)[)\]]"
KINDS = (
    ("b", r"b|n|bs|bsz|batch\w*|samples?"),
    ("h", r"h|nh|n_?heads?|num_heads|heads?|g|n_kv\w*"),
    ("t", r"t|l|s|q|k|n|i|m|1|one|seq\w*|len\w*|tokens?|time|steps?|\w*_len\w*|t_\w+|l_\w+|s_\w+|n_\w+|tq|tk|"
     r"\w*(queries|keys|query|key|tgt|src|new|tokens)\w*"),
)  # fmt: skip


def read(words: list[str]) -> str | None:
    """Axes as words in letters, or None where they are not samples, heads, tokens and features once each."""
    if any(re.search(r"\s|^no$", word) for word in words):
        return None
    wide = [i for i, word in enumerate(words) if re.fullmatch(WIDE, word.lower())]
    place = len(words) - 1 if not wide or wide[-1] == len(words) - 1 else wide[-1]
    if len(words) == 2:
        return "dt" if place == 0 else "td"
    letters = ""
    for i, word in enumerate(words):
        found = (k for k, pattern in KINDS if k not in letters and re.fullmatch(pattern, word.lower()))
        letters += "d" if i == place else next(found, "?")
    sets = ({"t", "d"}, {"b", "t", "d"}, {"b", "h", "t", "d"})
    return letters if set(letters) in sets and len(set(letters)) == len(letters) else None


def announced(source: Source, params: list[str]) -> str | None:
    """The layout that docs, an unpacking of .shape, or an einsum give one of the parameters, or None."""
    return beside(source, params) or unpacked(source, params) or by_einsum(source.code)


def beside(source: Source, params: list[str]) -> str | None:
    """As the docs write the axes beside a parameter's name."""
    found = (read(words) for param in params if (words := shape_words(source.docs, param)))
    return next((layout for layout in found if layout), None)


def documented(source: Source, params: list[str]) -> str | None:
    """As the docs write the axes beside a name, or of everything alike: "for (batch, tokens, width)"."""
    found = beside(source, params)
    alone = {layout for shape in re.findall(SHAPE, source.docs) if (layout := read(re.split(r"\s*,\s*", shape)))}
    alone = {layout for layout in alone if "b" in layout and "t" in layout}
    return found or (alone.pop() if len(alone) == 1 else None)


def unpacked(source: Source, params: list[str]) -> str | None:
    """As the code names the axes: B, T, D = x.shape, where x is still what was given."""
    for param in params:
        line = rf"^\s*\(?([\w, ]+?)\)? *= *{re.escape(param)}\.(?:shape|size\(\))\s*$"
        match = re.search(line, source.code, re.MULTILINE)
        found = read([p.strip() for p in match[1].split(",")]) if match else None
        changed = match and re.search(
            rf"^\s*(\w+, )*{re.escape(param)}(, \w+)* = ", source.code[: match.start()], re.MULTILINE
        )
        if found and not changed:
            return found
    return None


def by_einsum(code: str) -> str | None:
    """The axes of the first operand of a product whose last letters are contracted: "bqhd,bkhd->bhqk" is bthd."""
    match = re.search(r"einsum\(['\"] *([a-zA-Z]+), *([a-zA-Z]+) *-> *([a-zA-Z]+)", code)
    if match is None:
        return None
    left, right, out = match.groups()
    if len(left) != len(right) or len(out) != len(left) or left[-1] != right[-1] or left[-1] in out:
        return None
    kinds = {a: "t" for a, b in zip(left, right, strict=True) if a != b} | {left[-1]: "d"}
    kinds |= {a: "h" if a in "hHgn" and len(left) == 4 else "b" for a in left if a not in kinds}
    letters = "".join(kinds[a] for a in left)
    return letters if sorted(letters) == sorted(OURS.get(len(letters), "")) else None


def give(value: Any, layout: str) -> Any:
    """An array of ours in the learner's layout."""
    ours = OURS.get(value.ndim)
    if not layout or ours is None:
        return value
    if len(layout) == 2 and value.ndim == 3:  # one sample
        return value[0] if layout == "td" else value[0].T
    if "t" not in layout:
        return value[..., 0, :]
    if sorted(layout) != sorted(ours):
        return value
    return np.ascontiguousarray(np.transpose(value, [ours.index(letter) for letter in layout]))


def take(value: Any, layout: str) -> Any:
    """The learner's array as ours; one that has other axes stays as it is."""
    if layout and "t" not in layout:
        return value[..., None, :] if value.ndim == len(layout) else value
    ours = OURS.get(len(layout), "")
    if not layout or value.ndim != len(layout) or sorted(layout) != sorted(ours):
        return value
    return np.transpose(value, [layout.index(letter) for letter in ours])
