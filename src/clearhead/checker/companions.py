"""Functions of a file that its attention is meant to be called with: what makes the mask, and nothing else calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clearhead.checker.binding import bindings
from clearhead.checker.names import parameters, role
from clearhead.checker.subject import Subject

Call = tuple[str, dict[str, str]]  # with parameter -> role


def with_mask_makers(subject: Subject, node: ast.AST, calls: list[Call]) -> Iterator[Call]:
    """The calls with `make(mask)` in place of `mask`, for each unused function that makes one mask of another."""
    for maker in unused(subject, node):
        known = {name: role(name, frozenset(("mask",))) for name, _ in parameters(maker)}
        if not re.search("mask", maker.name) or "mask" not in known.values():
            continue
        made = [b.call() for b in bindings(maker, known.get, ("mask",)) if "mask" in b.roles.values()][:1]
        for call, roles in calls:
            if made and re.search(r"\bmask\b(?!=)", call):
                text = made[0]
                yield re.sub(r"\bmask\b(?!=)", f"{maker.name}({text})", call), roles
    yield from calls


def unused(subject: Subject, node: ast.AST) -> list[ast.FunctionDef]:
    """The functions besides this definition that no definition of the file uses."""
    nodes = [n for n in subject.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    used = {inner.id for n in nodes for inner in ast.walk(n) if isinstance(inner, ast.Name)}
    return [n for n in nodes if isinstance(n, ast.FunctionDef) and n is not node and n.name not in used]
