"""Parameters that are objects of settings or of inputs: a config, a dataclass of sizes, a batch with its masks.

Written as a call that gives each field by its role: `Args(dim=D, n_heads=H)`, where the file defines the class, else
`bundle(n_head=H, n_embd=D)`, or `config`, which answers any name.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

from clearhead.checker import bundle
from clearhead.checker.names import filler, parameters, role
from clearhead.checker.subject import Subject

CALLED = r"(\w*_)?(config|cfg|conf|args|hparams?|params|opts?|settings|hp)"
SIZES = frozenset(("H", "Hkv", "D", "dk"))
Known = Callable[[str], str | None]


def within(subject: Subject, node: ast.FunctionDef, known: Known, task: str = "") -> Known:
    """The reader of a signature that also knows its objects of settings, and (at a task) of weights or data."""

    def wider(name: str) -> str | None:
        return text(subject, node, name, known, task) or known(name)

    return wider


def text(subject: Subject, node: ast.FunctionDef, name: str, known: Known, task: str = "") -> str | None:
    """The object that a parameter is, as a call with its fields by role; None where it is none."""
    noted = noted_class(subject, node, name)
    if noted is not None:
        return made(subject, noted, known, task)
    held = weights(subject, node, name, task) if task else None
    if held is not None:
        return held
    used = attributes(subject, node, name)
    called = re.fullmatch(CALLED, name.lower()) is not None
    named = {key: found for key in used if (found := meaning(key, known)) is not None}
    if not called and (sum(found in SIZES for found in named.values()) < 2 or len(named) < len(used)):
        return None
    own = next((key for key, value in subject.defined.items() if called and is_settings(value, key, used)), None)
    if own is not None:
        return made(subject, own, known, task)
    if used and len(named) == len(used):
        return f"bundle({', '.join(f'{key}={found}' for key, found in named.items())})"
    return "config" if used or called else None


def weights(subject: Subject, node: ast.FunctionDef, name: str, task: str, depth: int = 2) -> str | None:
    """The weights or data that a parameter holds, as its use tells, or that of a function that it is handed on to."""
    held = bundle.text(node, name, task)
    if held is not None or not depth:
        return held
    further = (weights(subject, inner, other, task, depth - 1) for inner, other in handed_on(subject, node, name))
    return next((found for found in further if found is not None), None)


def handed_on(subject: Subject, node: ast.FunctionDef, name: str) -> list[tuple[ast.FunctionDef, str]]:
    """The functions of the file that a function hands a parameter to as it is, each with the name it has there."""
    own = {n.name: n for n in subject.tree.body if isinstance(n, ast.FunctionDef)}
    found: list[tuple[ast.FunctionDef, str]] = []
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)):
        inner = own.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if inner is None or inner is node:
            continue
        given = [*zip((one for one, _ in parameters(inner)), call.args, strict=False)]
        given += [(word.arg, word.value) for word in call.keywords if word.arg]
        found += [(inner, one) for one, value in given if bundle.is_name(value, name)]
    return found


def meaning(key: str, known: Known) -> str | None:
    """What a field is for: as a parameter of that name, or a size, or something harmless."""
    return known(key) or role(key, SIZES | frozenset(("window",))) or filler(key)


def noted_class(subject: Subject, node: ast.FunctionDef, name: str) -> str | None:
    """The class of the file that the parameter's annotation names, where it only holds things."""
    args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    note = next((a.annotation for a in args if a.arg == name), None)
    words = re.findall(r"\w+", ast.unparse(note)) if note is not None else []
    return next((word for word in words if holder(subject.defined.get(word), subject)), None)


def holder(value: Any, subject: Subject) -> bool:
    """Whether it is a class with fields and no methods that do work: no keys, queries or inputs are handed to it."""
    if not isinstance(value, type) or not fields(value) or hasattr(value, "forward"):
        return False
    node = next((n for n in subject.tree.body if isinstance(n, ast.ClassDef) and n.name == value.__name__), None)
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef)] if node is not None else []
    working = [m for m in methods if not m.name.startswith("__") and len(m.args.args) > 1]
    return not working


def is_settings(value: Any, key: str, used: list[str]) -> bool:
    """Whether a class of the file may be the settings that these attributes are read from."""
    fits = isinstance(value, type) and re.search(r"conf|cfg|args|param|hp|setting|option", key.lower()) is not None
    return fits and all(hasattr(value, one) or one in fields(value) for one in used)


def fields(value: Any) -> dict[str, bool]:
    """The fields of a class, and whether each must be given."""
    if getattr(value, "__total__", None) is not None:  # a TypedDict
        return dict.fromkeys(value.__annotations__, True)
    try:
        given = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return {}
    plain = (p for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return {p.name: p.default is p.empty for p in plain}


def made(subject: Subject, name: str, known: Known, task: str = "") -> str:
    """The call of a class of the file: what must be given, and the fields that are read and have a role."""
    parts, keys = list[str](), fields(subject.defined[name])
    weights = {key: found for key in keys if task and (found := bundle.part(key, task)) is not None}
    known = (lambda key: weights.get(key)) if len(set(weights.values())) > 2 else known
    for key, needed in keys.items():
        found = meaning(key, known)
        read = re.search(rf"\.{key}\b|\[.{key}.\]", subject.text) is not None
        if needed:
            parts.append(f"{key}={found or 'None'}")
        elif read and found is not None and filler(key) != found and found.isidentifier():
            parts.append(f"{key}={found}")
    return f"{name}({', '.join(parts)})"


def attributes(subject: Subject, node: ast.FunctionDef, name: str) -> list[str]:
    """The attributes and keys that a function reads of a parameter, or its class of what it was kept as."""
    found = dict.fromkeys(bundle.uses(node, name)[0])
    owner = next((n for n in subject.tree.body if isinstance(n, ast.ClassDef) and node in n.body), None)
    if owner is None:
        return list(found)
    kept = re.findall(rf"self\.(\w+) = {re.escape(name)}\b(?!\.)", ast.unparse(node))
    for one in kept:
        code = ast.unparse(owner)
        found |= dict.fromkeys(re.findall(rf"self\.{one}\.(\w+)\b(?!\()", code))
        found |= dict.fromkeys(re.findall(rf"self\.{one}\[['\"](\w+)['\"]\]", code))
    return list(found)
