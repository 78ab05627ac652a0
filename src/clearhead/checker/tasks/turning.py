"""Positions in two steps: a function that turns (or moves) x by what another function of the file has made.

`apply_rotary_emb(Q, precompute_freqs_cis(D, n))`: the parameter beside x is given what the file makes from a length
and a width. Where the docs have heads after tokens, Q is given so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from clearhead.checker.binding import bindings
from clearhead.checker.layout import read
from clearhead.checker.names import parameters
from clearhead.checker.source import Source, shape_words
from clearhead.checker.subject import Subject

Known = Callable[[str], str | None]


def calls(subject: Subject, source: Source, node: ast.FunctionDef, known: Known) -> list[str]:
    """The calls of a function with x first, and parameters that another function of the file makes."""
    given = [name for name, default in parameters(node) if not default]
    if not 2 <= len(given) <= 3 or any(known(name) in ("n", "D") for name in given[1:]):
        return []
    made = [text for other in makers(subject, node) for text in made_by(other, known)]
    words = shape_words(source.docs, given[0])
    late = words is not None and read(words) == "bthd"
    x = "x" if words is not None and len(words) == 3 else "Q.swapaxes(1, 2)" if late else "Q"
    star = "*" if len(given) == 3 else ""
    found = [f"{node.name}({x}, {star}{text})" for text in made]
    return [f"{call}.swapaxes(1, 2)" if late else call for call in found]


def makers(subject: Subject, node: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The other functions of the file that this one does not call itself."""
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    nodes = [n for n in subject.tree.body if isinstance(n, ast.FunctionDef)]
    return [n for n in nodes if n is not node and n.name not in used]


def made_by(other: ast.FunctionDef, known: Known) -> list[str]:
    """The calls of a maker from a length and a width alone."""
    found = bindings(other, known, ("n", "D"))
    fine = [b for b in found if "D" in b.roles.values() and set(b.roles.values()) <= {"n", "D"}]
    return [f"{other.name}({b.call()})" for b in fine]
