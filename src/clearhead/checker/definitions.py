"""What the functions and classes of a file are like: main method, constructor, what they keep, whether they project."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from clearhead.checker import bundle
from clearhead.checker.names import parameters, role

LAYERS = ("Linear", "Parameter", "LazyLinear", "Conv1d", "Conv1D", "MultiheadAttention")


def main_method(node: ast.ClassDef) -> ast.FunctionDef | None:
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    for name in ("forward", "__call__"):
        if name in methods or aliases(node).get(name) in methods:
            return methods[aliases(node).get(name, name)]
    steps = [
        m
        for n, m in methods.items()
        if re.fullmatch(r"(step|attend|update|append|decode|add|push|decode_step|run|(compute_)?loss)", n)
    ]
    public = [m for n, m in methods.items() if not n.startswith("_") and parameters(m)]
    whole = [m for m in public if {"Q", "K", "V"} <= {role(name) for name, _ in parameters(m)}]
    return steps[-1] if steps else public[0] if len(public) == 1 else whole[0] if len(whole) == 1 else None


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [n for n in node.body if isinstance(n, ast.FunctionDef)]


def aliases(node: ast.ClassDef) -> dict[str, str]:
    """Other names of methods: __call__ = _shift_right."""
    pairs = ((n.targets[0], n.value) for n in node.body if isinstance(n, ast.Assign))
    return {a.id: b.id for a, b in pairs if isinstance(a, ast.Name) and isinstance(b, ast.Name)}


def returned(node: ast.FunctionDef | ast.ClassDef) -> ast.FunctionDef | None:
    """The function of its own that a function makes and returns, or None."""
    last = node.body[-1]
    name = last.value.id if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) else None
    made = (n for n in node.body if isinstance(n, ast.FunctionDef) and isinstance(node, ast.FunctionDef))
    return next((n for n in made if n.name == name), None)


def constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    """__init__, or what the fields of a dataclass or NamedTuple stand for, or None."""
    own = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    written = " ".join(ast.unparse(part) for part in (*node.decorator_list, *node.bases))
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    if own is not None or not fields or not re.search("dataclass|NamedTuple", written):
        return own
    given = ", ".join(ast.unparse(n) for n in fields if "init=False" not in ast.unparse(n))
    made = ast.parse(f"def __init__(self, {given}): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def called_directly(node: ast.ClassDef, method: str) -> bool:
    """Whether an instance is called itself: __call__, or a module's forward."""
    return method in ("__call__", aliases(node).get("__call__")) or (method == "forward" and bool(node.bases))


def attends(node: ast.ClassDef) -> bool:
    """Whether a method takes queries or an input; else the class keeps only."""
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
    return any(role(name) in ("Q", "x") for method in methods for name, _ in parameters(method))


def keeps(method: ast.FunctionDef, others: Sequence[ast.FunctionDef] = ()) -> bool:
    """Whether a method goes on with what its object holds: self.k = cat([self.k, k]), self.k[t] = k; or calls one."""
    text = ast.unparse(method)
    if any(keeps(one) for one in others if one is not method and re.search(rf"self\.{one.name}\(", text)):
        return True
    own = r"self \+= |self\.\w+(\.(append|extend|insert)\(|\[[^\n]*\] = )"
    alias = r"(\w+) = self\.\w+\n(?s:.*)\b\1(\.(append|extend|insert)\(|\[[^\n]*\] = )"
    if re.search(own, text) or re.search(alias, text):
        return True
    kept = re.findall(r"self\.(\w+)(?:, self\.\w+)* \+?= ", text)
    return read_first(text, kept)


def read_first(text: str, kept: list[str]) -> bool:
    """Whether one of the attributes is read before, or where, it is set."""
    for name in kept:
        first = re.search(rf"self\.{name}\b", text)
        line = text[text.rfind("\n", 0, first.start()) + 1 :].split("\n")[0] if first else ""
        sets = re.match(rf"\s*(self\.\w+, )*self\.{name}\b(, self\.\w+)* = ", line)
        if not sets or line.count(f"self.{name}") > 1:
            return True
    return False


def holds(method: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is a dict of keys and values that the function puts new ones into, whatever its name."""
    put = {ast.unparse(t) for n in ast.walk(method) if isinstance(n, ast.Assign) for t in n.targets}
    keys, _, _ = bundle.uses(method, name)
    kept = {role(key, frozenset(("K", "V"))) for key in keys if f"{name}['{key}']" in put}
    return kept >= {"K", "V"}


def pairs(node: ast.ClassDef) -> bool:
    """Whether a class is made of keys and values: a dataclass or NamedTuple with a field for each."""
    init = constructor(node)
    return init is not None and {"K", "V"} <= {side_of(name) for name, _ in parameters(init)}


def side_of(key: str) -> str | None:
    """K or V, as the name of what is kept says."""
    found = re.search(r"(?i)(^|_)(k|v)(ey|al|s|_|$)", key)
    return role(key, frozenset(("K", "V"))) or (found[2].upper() if found else None)


def noted(node: ast.FunctionDef, name: str) -> set[str]:
    """The words of a parameter's annotation."""
    args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    note = next((a.annotation for a in args if a.arg == name), None)
    return set(re.findall(r"\w+", ast.unparse(note))) if note is not None else set()


def is_number(method: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter's annotation or default says that it is a whole number (tokens before, say)."""
    args = [*method.args.posonlyargs, *method.args.args]
    defaults = dict(zip(reversed(args), reversed(method.args.defaults), strict=False))
    defaults |= {a: d for a, d in zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True) if d is not None}
    arg = next(a for a in (*args, *method.args.kwonlyargs) if a.arg == name)
    value = defaults.get(arg)
    noted = arg.annotation is not None and ast.unparse(arg.annotation) == "int"
    return noted or (isinstance(value, ast.Constant) and isinstance(value.value, int))


def projects(node: ast.ClassDef) -> bool:
    """Whether a class has weights of its own."""
    return any(
        (isinstance(n, ast.Attribute) and n.attr in LAYERS) or (isinstance(n, ast.Name) and n.id in LAYERS)
        for n in ast.walk(node)
    )


def demo(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether it is a function that takes and gives nothing."""
    gives = any(isinstance(n, ast.Return | ast.Yield) and n.value is not None for n in ast.walk(node))
    return isinstance(node, ast.FunctionDef) and not parameters(node) and not gives
