"""What may make the state that a cached step starts from: the file's own makers, dicts, tuples, zeros."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from clearhead.checker import bundle
from clearhead.checker.binding import bindings
from clearhead.checker.definitions import constructor, noted, projects, side_of
from clearhead.checker.names import parameters, role
from clearhead.checker.subject import Subject

BEGINS = r"init|new|empty|make|create|fresh|start"

EMPTY = ("None", "nothing()", "slots()", "[]")

LITERALS = (
    "{}",
    "None",
    "[]",
    "{'k': None, 'v': None}",
    "(None, None)",
    "[None, None]",
    "{'k': [], 'v': []}",
    "([], [])",
    "(nothing(), nothing())",
    "(slots(), slots())",
    "{'k': nothing(), 'v': nothing()}",
)


def default_kept(node: ast.FunctionDef) -> list[str]:
    """Parameters whose default is a list or dict made once."""
    args = [*node.args.posonlyargs, *node.args.args]
    pairs = [*zip(reversed(args), reversed(node.args.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
    return [a.arg for a, d in pairs if isinstance(d, ast.List | ast.Dict | ast.Call)]


def makes_for(node: ast.FunctionDef, subject: Subject, own: list[str], pair: bool) -> list[str]:
    """What may make the state of a step, likeliest first."""
    resets = [n.name for n in functions(subject) if re.search(r"reset|clear", n.name) and not parameters(n)]
    if not own and not pair:
        return [f"{name}()" for name in resets] or ["None"]
    if pair:
        return [f"({e}, {e})" for e in EMPTY]
    optional = any(name == own[0] and default for name, default in parameters(node))
    literals = ["None", *(m for m in LITERALS if m != "None")] if optional else list(LITERALS)
    begun = own_makers(node, own[0], subject)
    if begun:
        return begun
    found = [*own_states(node, own[0], subject), *keyed(node, own[0], subject), *unpacked(node, own[0])]
    return [*found, *literals]


def functions(subject: Subject) -> list[ast.FunctionDef]:
    return [n for n in subject.tree.body if isinstance(n, ast.FunctionDef)]


def own_makers(node: ast.FunctionDef, name: str, subject: Subject) -> list[str]:
    """The file's functions that return a new state of the class that the parameter is annotated with."""
    words = noted(node, name) & {n.name for n in subject.tree.body if isinstance(n, ast.ClassDef)}
    made = rf"\b({'|'.join(words)})\("
    makers = [n for n in functions(subject) if n is not node and words and re.search(made, given_back(n))]
    makers = [n for n in makers if "Q" not in {role(p) for p, _ in parameters(n)}]
    return [f"{n.name}({', '.join(make_args(parameters(n)))})" for n in makers]


def given_back(node: ast.FunctionDef) -> str:
    """What a function returns, as text."""
    return "\n".join(ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Return))


def own_states(node: ast.FunctionDef, name: str, subject: Subject) -> list[str]:
    """What the file has to make a state: the class of the annotation, other classes, functions that begin one."""
    classes = [n for n in subject.tree.body if isinstance(n, ast.ClassDef) and not projects(n)]
    words = noted(node, name)
    chosen = [n for n in classes if n.name in words] or classes
    makers = [n for n in functions(subject) if n is not node and re.search(BEGINS, n.name)]
    makers = [n for n in makers if not {"Q", "K", "V"} & {role(p) for p, _ in parameters(n)}]
    begun = [f"{n.name}({', '.join(make_args(parameters(n)))})" for n in makers]
    return [text for n in chosen for text in made_by(n, getattr(subject.defined.get(n.name), "_fields", ()))] + begun


def keyed(node: ast.FunctionDef, name: str, subject: Subject) -> list[str]:
    """Dicts (or objects) with the keys that the step reads."""
    keys, _, _ = bundle.uses(node, name)
    sides = {key: side_of(key) for key in keys}
    if set(sides.values()) < {"K", "V"}:
        return []
    filled = [", ".join(f"{key}={empty if side else 0}" for key, side in sides.items()) for empty in EMPTY]
    return [f"bundle({items})" for items in filled]


def unpacked(node: ast.FunctionDef, name: str) -> list[str]:
    """Tuples for a state that the step takes apart into keys, values and a count: keys, values, length = state."""
    for inner in ast.walk(node):
        if not (isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Name) and inner.value.id == name):
            continue
        target = inner.targets[0]
        if isinstance(target, ast.Tuple) and len(target.elts) == 3:
            parts = [ast.unparse(e) for e in target.elts]
            sides = [side_of(part) for part in parts]
            if {"K", "V"} < set(sides):
                return [
                    f"({', '.join(e if side else '0' for side in sides)})" for e in ("slots()", "nothing()", "None")
                ]
    return []


def made_by(node: ast.ClassDef, fields: Sequence[str] = ()) -> list[str]:
    """The texts that make the state of this class, from its constructor or the fields of a dataclass or namedtuple."""
    init = constructor(node)
    if init is None and not fields:
        return [f"{node.name}()"]
    named = fields if init is None else [name for name, default in parameters(init) if not default]
    needed = {name: side_of(name) for name in named}
    if init is None or {"K", "V"} <= set(needed.values()):  # made of what it keeps
        filled = [", ".join(f"{name}={empty if side else 0}" for name, side in needed.items()) for empty in EMPTY]
        return [f"{node.name}({items})" for items in filled]
    return [
        f"{node.name}({b.call()})"
        for b in bindings(init, made_with, ("B", "H", "maxlen", "dk"), frozenset(("window",)))[:6]
    ]


def made_with(name: str) -> str | None:
    """What a parameter of a cache's constructor is given."""
    low = name.lower()
    if re.fullmatch(r"(max_?|n_?)?(b|bs|bsz|batch(_?size)?)", low):
        return "B"
    if role(name, frozenset(("window",))):
        return "window"
    if re.search(r"max|len|capacity|ctx|slots|^size$|^(n|l|t|s)$|tokens", low):
        return "maxlen"
    found = role(name, frozenset(("H", "D", "dk")))
    return "dk" if found == "D" else found


def make_args(given: list[tuple[str, bool]]) -> list[str]:
    """The arguments for the parameters (name, has a default) that must be given."""
    plain = [made_with(name) or "None" for name, default in given if not default]
    return plain + [f"{name}={made_with(name)}" for name, default in given if default and made_with(name)]
