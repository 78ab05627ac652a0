"""Parameters that hold several things at once: a dict or an object of weights, a tuple of queries, keys and values."""

from __future__ import annotations

import ast
from typing import Any

from clearhead.checker.names import WEIGHTS, role

ARRAY = frozenset(
    ("shape", "size", "T", "mT", "ndim", "dtype", "transpose", "reshape", "view", "swapaxes", "get", "dim")
)
SIZES = frozenset(("H", "Hkv", "D", "dk"))


class Bundle(dict[str, Any]):
    """A dict whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def text(node: ast.FunctionDef, name: str, task: str) -> str | None:
    """The text of the bundle that a parameter is used as, or None."""
    keys, unpacked, places = uses(node, name)
    parts = {key: found for key in keys if (found := part(key, task)) is not None}
    if len(set(parts.values())) >= 3:
        return f"bundle({', '.join(f'{key}={found}' for key, found in parts.items())})"
    usual = ("Q", "K", "V") if task == "sdpa" else ("Wq", "Wk", "Wv", "Wo")
    found = [part(target, task) for target in unpacked]
    if len(unpacked) >= 3:
        found = found if len(set(found)) == len(found) and None not in found else list(usual[: len(unpacked)])
        return f"({', '.join(str(f) for f in found)})" if len(found) == len(unpacked) else None
    if places >= 3 and role(name, frozenset(("mask", "Q", "K", "V", "x", "mem"))) is None:
        return f"({', '.join(usual[:places])})"
    return None


def part(key: str, task: str) -> str | None:
    """What an item is for, by its key."""
    data = role(key, frozenset(("Q", "K", "V")))
    if task == "sdpa":
        return data or role(key, frozenset(("mask",)))
    weight = role(key, frozenset(WEIGHTS))
    letter = key.lower().strip("_")
    out = "Wo" if letter in ("o", "out", "output", "proj", "c_proj") else None
    return weight or ("W" + data.lower() if data else None) or out or role(key, SIZES)


def uses(node: ast.FunctionDef, name: str) -> tuple[list[str], list[str], int]:
    """(keys and attributes, names that it is unpacked to, number of places) that a function takes of a parameter."""
    keys: dict[str, None] = {}
    unpacked: list[str] = []
    places: set[int] = set()
    words = strings(node, name)
    for inner in sorted(ast.walk(node), key=place):
        if isinstance(inner, ast.Attribute) and is_name(inner.value, name) and inner.attr not in ARRAY:
            keys[inner.attr] = None
        elif isinstance(inner, ast.Subscript) and is_name(inner.value, name) and isinstance(inner.slice, ast.Constant):
            if isinstance(inner.slice.value, str):
                keys[inner.slice.value] = None
            elif isinstance(inner.slice.value, int):
                places.add(inner.slice.value)
        elif isinstance(inner, ast.Subscript) and is_name(inner.value, name):
            keys |= dict.fromkeys(spelled(inner.slice, words))
        elif isinstance(inner, ast.Call) and is_name(inner.func, "getattr") and is_name(inner.args[0], name):
            keys |= dict.fromkeys(spelled(inner.args[1], words))
        elif isinstance(inner, ast.Assign) and is_name(inner.value, name) and isinstance(inner.targets[0], ast.Tuple):
            unpacked = [t.id for t in inner.targets[0].elts if isinstance(t, ast.Name)]
    return (
        [key for key in keys if key.isidentifier()],
        unpacked,
        len(places) if places == set(range(len(places))) else 0,
    )


def strings(node: ast.AST, name: str) -> list[str]:
    """The words, and the letters of a word that a loop goes through, that may be keys of a parameter: none of an
    array, none that are keys of something else."""
    inside = list(ast.walk(node))
    if any(isinstance(n, ast.Attribute) and is_name(n.value, name) and n.attr in ARRAY - {"get"} for n in inside):
        return []
    found = [n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    dicts = [n for n in inside if isinstance(n, ast.Call) and is_name(n.func, "dict")]
    found += [word.arg for n in dicts for word in n.keywords if word.arg]
    loops = [n.iter for n in inside if isinstance(n, ast.For | ast.comprehension)]
    letters = "".join(n.value for n in loops if isinstance(n, ast.Constant) and isinstance(n.value, str))
    keys = [n.slice for n in inside if isinstance(n, ast.Subscript) and not is_name(n.value, name)]
    taken = {n.value for n in keys if isinstance(n, ast.Constant)}
    return [word for word in [*letters, *found] if word not in taken and word not in ("", letters)]


def spelled(key: ast.expr, words: list[str]) -> list[str]:
    """The keys that a subscript may take where a variable is, or is part of, the key: params[name], p[f"w{name}"]."""
    if isinstance(key, ast.Name):
        return words
    if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Add):
        return [a + b for a in spelled(key.left, words) for b in spelled(key.right, words)]
    if isinstance(key, ast.JoinedStr):
        found = [""]
        for part in key.values:
            more = spelled(part.value if isinstance(part, ast.FormattedValue) else part, words)
            found = [a + b for a in found for b in more]
        return found
    return [key.value] if isinstance(key, ast.Constant) and isinstance(key.value, str) else []


def place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
