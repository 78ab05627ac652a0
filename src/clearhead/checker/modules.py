"""The call of a class: how to make it, how to fill in the reference's weights, how to call it."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from clearhead.checker.candidates import Candidate, main_method
from clearhead.checker.engine import Failed
from clearhead.checker.infer import MASKS, construct
from clearhead.checker.names import WEIGHTS, AnyConfig, arguments
from clearhead.checker.setup import Setup, names_in
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject, environment, evaluate
from clearhead.checker.weights import find, sizes

TRIED = (
    {"B": 3, "H": 4, "Hkv": 2, "D": 24, "dk": 6, "d": 24},
    {"B": 3, "H": 4, "Hkv": 4, "D": 24, "dk": 6, "d": 24},
    {"B": 2, "H": 8, "Hkv": 8, "D": 64, "dk": 8, "d": 64},
)


def class_call(candidate: Candidate, task: str) -> tuple[str, dict[str, str]]:
    """(arguments of the call, parameter -> role) of a class's forward."""
    assert isinstance(candidate.node, ast.ClassDef)
    method = main_method(candidate.node)
    if method is None:
        raise CannotRunError(f"{candidate.name} has no forward")
    data = frozenset(("Q", "K", "V", "x", "mem")) if task != "sdpa" else frozenset(("Q", "K", "V", "x"))
    try:
        texts, roles = arguments(method, data | MASKS | (frozenset(("mem",)) & data), MASKS)
        if task != "sdpa":
            texts, roles = with_sources(method, texts, roles)
    except ValueError:
        from clearhead.checker.infer import positional

        texts, roles = positional(method)
    name = method.name if method.name not in ("forward", "__call__") else ""
    return f"{'.' + name if name else ''}({', '.join(texts)})", roles


def with_sources(method: ast.FunctionDef, texts: list[str], roles: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """An optional second source (context=None, memory=None) is given too; a lone query is x."""
    if "x" in roles.values() or "Q" in roles.values():
        known = frozenset(("K", "V")) if "Q" in roles.values() else frozenset(("mem",))
        texts, roles = arguments(method, frozenset(("Q", "K", "V", "x", "mem")) | MASKS, MASKS | known)
    return texts, roles


def module_setup(subject: Subject, source: Source, candidate: Candidate, base: Setup) -> tuple[Setup, dict[str, str]]:
    """The setup of a module with weights: `load(Attention(D, H), q="wq", ...)(x)`, and its roles."""
    assert isinstance(candidate.node, ast.ClassDef)
    call, roles = class_call(candidate, base.task)
    try:
        made = construct(candidate.node, subject)
    except ValueError as error:
        raise CannotRunError(f"cannot make a {candidate.name}: {error}; say how with --call") from None
    if base.task == "sdpa" or names_in(made) & set(WEIGHTS):
        return replace(base, call=f"{made}{call}"), roles
    text, fixed, variant = loaded(subject, source, made)
    return replace(base, call=f"{text}{call}", sizes=fixed, variant=variant), roles


def loaded(subject: Subject, source: Source, made: str) -> tuple[str, tuple[tuple[str, int], ...], str]:
    """(`load(made, q=..., ...)`, the sizes that the class fixes, the variant of the reference)."""
    module: object = Failed("")
    size = TRIED[0]
    for size in TRIED:
        names = {**size, "config": AnyConfig(size)}
        module = evaluate(subject, made, environment(subject, names, "torch"))
        if not isinstance(module, Failed):
            break
    if isinstance(module, Failed):
        raise CannotRunError(f"making {made} failed: {module.words}")
    try:
        paths = find(module, source.code)
    except ValueError as error:
        raise CannotRunError(
            f"{error}; say so with --call \"load({made}, q='...', k='...', v='...', o='...')(x)\""
        ) from None
    known = sizes(module, paths)
    fixed = fixed_sizes(made, known, size)
    pairs = ", ".join(f"{part}={path!r}" for part, path in paths.items())
    variant = "no out" if not any(p.startswith("o") for p in paths) and dict(fixed).get("H") == 1 else ""
    if known.get("Hkv", known.get("H", 0)) != known.get("H", 0) or "Hkv" in made:
        variant = variant or "grouped"
    return f"load({made}, {pairs})", fixed, variant


def with_load(subject: Subject, source: Source, base: Setup) -> Setup:
    """A call that makes the module plainly, `Attention(D, H)(x)`, with the reference's weights put into it."""
    node = source.node
    if not isinstance(node, ast.ClassDef) or base.task == "sdpa" or "load" in base.uses:
        return base
    tree = ast.parse(base.call, mode="eval")
    made = next(
        (
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == node.name
        ),
        None,
    )
    if made is None:
        return base
    plain = ast.unparse(made)
    text, fixed, variant = loaded(subject, source, plain)
    return replace(base, call=ast.unparse(tree).replace(plain, text, 1), sizes=fixed, variant=variant)


def fixed_sizes(made: str, known: dict[str, int], tried: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes that the class fixes itself, where its constructor is not given them."""
    if re.search(r"\bconfig\b", made):
        return ()
    fixed = {}
    if not re.search(r"\bH\b", made):
        fixed["H"] = known.get("H", 1)
        if "Hkv" in known:
            fixed["Hkv"] = known["Hkv"]
    if not re.search(r"\bD\b", made):
        fixed["D"] = known["D"]
    elif "H" in fixed and fixed["H"] > 1:
        fixed["D"] = tried["D"]
    return tuple(fixed.items())
