"""The call of a class: how to make it, how to fill in the reference's weights, how to call it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from clearhead.checker.binding import Binding, bindings
from clearhead.checker.candidates import Candidate
from clearhead.checker.companions import with_mask_makers
from clearhead.checker.definitions import called_directly, main_method
from clearhead.checker.engine import Failed
from clearhead.checker.infer import MASKS, SPARE, complete, construct, reader
from clearhead.checker.names import WEIGHTS, AnyConfig
from clearhead.checker.setup import Setup, names_in
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject, environment, evaluate
from clearhead.checker.weights import find, sizes

TRIED = (
    {"B": 3, "H": 4, "Hkv": 2, "D": 24, "dk": 6, "d": 24},
    {"B": 3, "H": 4, "Hkv": 4, "D": 24, "dk": 6, "d": 24},
    {"B": 2, "H": 8, "Hkv": 8, "D": 64, "dk": 8, "d": 64},
)


DATA = frozenset(("Q", "K", "V", "x", "mem"))


def class_calls(node: ast.ClassDef, source: Source, task: str) -> list[tuple[str, dict[str, str]]]:
    """(arguments of the call, parameter -> role) of a class's forward, likeliest first."""
    method = main_method(node)
    if method is None:
        raise CannotRunError(f"{node.name} has no forward")
    data = DATA if task != "sdpa" else DATA - {"mem"}
    spare = tuple(role for role in SPARE[task] if role not in WEIGHTS)

    def ways(allowed: frozenset[str]) -> list[Binding]:
        known = reader(source.subject, method, task, allowed)
        return bindings(method, known, spare, MASKS, source.docs)

    plain = ways(data | MASKS)
    found = [with_sources(source, method, task, b) for b in plain[:1]] + plain[1:]
    if task == "multi_head_attention":  # the only input may be called a source
        found += ways((data | MASKS) - {"mem"})
    if task == "sdpa":
        found += ways(MASKS)
    name = "" if called_directly(node, method.name) else f".{method.name}"
    fine = [(f"{name}({b.call()})", b.roles) for b in found if complete(task, set(b.roles.values()), b.call())]
    return list(with_mask_makers(source.subject, node, fine))


def with_sources(source: Source, method: ast.FunctionDef, task: str, plain: Binding) -> Binding:
    """An optional second source (context=None, memory=None) is given too; a lone query is x."""
    given = set(plain.roles.values())
    if task == "sdpa" or not given & {"x", "Q"}:
        return plain
    more = frozenset(("K", "V")) if "Q" in given else frozenset(("mem",))
    return next(
        iter(bindings(method, reader(source.subject, method, task, DATA | MASKS), SPARE[task], MASKS | more)), plain
    )


def module_setups(
    subject: Subject, source: Source, candidate: Candidate, base: Setup
) -> Iterator[tuple[Setup, dict[str, str]]]:
    """The setups of a module with weights, `load(Attention(D, H), q="wq", ...)(x)`, with their roles."""
    node = candidate.node
    assert isinstance(node, ast.ClassDef)
    calls = class_calls(node, source, base.task)
    made = construct(node, subject, base.task)
    if not calls or not made:
        raise CannotRunError(f"it is not clear how to {'call' if made else 'make'} a {node.name}; say it with --call")
    error: CannotRunError | None = None
    for text in made:
        if base.task == "sdpa" or names_in(text) & set(WEIGHTS):
            yield from ((replace(base, call=f"{text}{call}"), roles) for call, roles in calls)
            continue
        try:
            put, fixed, variant = loaded(subject, source, text)
        except CannotRunError as problem:
            error = error or problem
            continue
        for call, roles in calls:
            yield replace(base, call=f"{put}{call}", sizes=fixed, variant=variant), roles
    if error is not None:
        raise error


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
    if known.get("Hkv") == 1 and known.get("H") != 1 and "Hkv" not in made:
        fixed = (*((k, v) for k, v in fixed if k != "Hkv"), ("Hkv", 1))
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
    if made is None or names_in(ast.unparse(made)) & set(WEIGHTS):
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
