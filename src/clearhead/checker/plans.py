"""The ways of calling a candidate, per task: from its name and signature, or from the flags."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from clearhead.checker.candidates import Candidate
from clearhead.checker.infer import attention_setups, function_call, library
from clearhead.checker.modules import TRIED, module_setup, with_load
from clearhead.checker.setup import ATTENTION, Flags, Setup, names_in
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject, environment, evaluate
from clearhead.checker.weights import sizes


def plan(subject: Subject, source: Source, candidate: Candidate | None, task: str, flags: Flags) -> list[Setup]:
    """All setups worth a try, likeliest first. Raises CannotRunError or ValueError in plain words."""
    if task == "kv_cache":
        from clearhead.checker.tasks.stepping import setups as cache_setups

        return cache_setups(subject, source, candidate, flags)
    if task == "causal_mask":
        task = attention_of(candidate, flags)
        if task != "causal_mask":
            return [
                replace(s, causal=True)
                for s in plan(subject, source, candidate, task, flags)
                if s.causal or "causal" not in s.uses
            ]
    if flags.call:
        base = Setup(task, checked(flags.call), returns=flags.returns)
        base = with_load(subject, source, base) if task in ATTENTION else base
        roles = roles_of_call(source, flags.call)
    elif candidate is None:
        raise CannotRunError("nothing to call was found; say how with --call")
    elif task not in ATTENTION:
        return simple_plan(subject, source, candidate, task, flags)
    elif isinstance(candidate.node, ast.ClassDef):
        base, roles = module_setup(subject, source, candidate, Setup(task, "0", returns=flags.returns))
    else:
        call, roles = function_call(candidate, task)
        base = Setup(task, call, returns=flags.returns)
    if task not in ATTENTION:
        return simple_plan(subject, source, candidate, task, flags, base)
    base = one_head(subject, with_file_sizes(subject, base))
    found = attention_setups(subject, source, base, roles, flags)
    return found + [replace(setup, single=True) for setup in found[:4]]


def one_head(subject: Subject, base: Setup) -> Setup:
    """A call that names no number of heads: the module's own number, else one head, which may do without W_o."""
    if base.task != "sdpa" and "H" in base.uses and not base.uses & {"load", "Wq", "Wk", "Wv", "Wqkv"}:
        return replace(base, variant="no weights")
    if base.task == "sdpa" or base.sizes or base.variant or base.uses & {"H", "n", "Hkv", "config"}:
        return base
    if not base.uses & {"load", "Wq", "Wk", "Wv", "Wqkv"}:
        return replace(base, sizes=(("H", 1),), variant="no weights")
    known, parts = loaded_sizes(subject, base)
    heads = known.get("H", 1)
    fixed = {"H": heads, **({"D": known["D"]} if heads > 1 else {})}
    out = "Wo" in base.uses or any(part.startswith("o") for part in parts)
    return replace(base, sizes=tuple(fixed.items()), variant="" if out or heads > 1 else "no out")


def loaded_sizes(subject: Subject, base: Setup) -> tuple[dict[str, int], list[str]]:
    """The sizes of the module that the call loads, and the parts that it names; nothing without a `load`."""
    seen: dict[str, Any] = {}

    def load(module: Any, **paths: str) -> Any:
        seen.update(sizes=sizes(module, paths), parts=list(paths))
        raise LookupError

    evaluate(subject, base.call, {**environment(subject, dict(TRIED[0]), "torch"), "load": load})
    return seen.get("sizes", {}), seen.get("parts", [])


def attention_of(candidate: Candidate | None, flags: Flags) -> str:
    """Which attention task "a causal mask" means when the code computes attention, else the mask task itself."""
    uses = names_in(checked(flags.call)) if flags.call else frozenset()
    if uses & {"Wq", "Wqkv", "load"} or (not flags.call and candidate and candidate.task == "multi_head_attention"):
        return "multi_head_attention"
    if uses & {"Q", "K", "V"} or (not flags.call and candidate and candidate.task == "sdpa"):
        return "sdpa"
    return "causal_mask"


def checked(call: str) -> str:
    try:
        names_in(call)
    except SyntaxError as error:
        raise CannotRunError(f"--call is no expression: {error.msg} in {call!r}") from None
    return call


def roles_of_call(source: Source, call: str) -> dict[str, str]:
    """Parameter -> role of an explicit call: by position and keyword, for reading the docs of each parameter."""
    node = source.function()
    uses = names_in(call)
    if node is None:
        return {name: name for name in uses}
    names = [a.arg for a in node.args.args if a.arg != "self"]
    outer = ast.parse(call, mode="eval").body
    found = {name: name for name in uses & {"mask", "Q", "K", "V", "src_mask", "tgt_mask", "x"}}
    if isinstance(outer, ast.Call):
        for name, arg in [*zip(names, outer.args, strict=False), *((k.arg, k.value) for k in outer.keywords)]:
            if isinstance(arg, ast.Name) and name:
                found[name] = arg.id
    return found


def with_file_sizes(subject: Subject, base: Setup) -> Setup:
    """Sizes that the file itself fixes by the names that the call uses."""
    fixed = dict(base.sizes)
    for name in ("B", "H", "Hkv", "D", "dk", "T"):
        value = subject.defined.get(name)
        if name in base.uses and isinstance(value, int) and not isinstance(value, bool):
            fixed[name] = value
    return replace(base, sizes=tuple(fixed.items()))


def simple_plan(
    subject: Subject, source: Source, candidate: Candidate | None, task: str, flags: Flags, base: Setup | None = None
) -> list[Setup]:
    """Masks, positions and shifts: the call from the task's own module."""
    from clearhead.checker.tasks import probe_module

    base = base or Setup(task, "0", returns=flags.returns)
    calls = [base] if flags.call else probe_module(task).calls(subject, source, candidate, base)
    made = [replace(setup, lib=lib) for lib in library(source, flags) for setup in calls]
    variants = probe_module(task).variants
    return [with_file_sizes(subject, v) for setup in made for v in variants(source, setup, flags)]
