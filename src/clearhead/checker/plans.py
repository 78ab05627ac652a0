"""The ways of calling a candidate, per task: from its name and signature, or from the flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clearhead.checker.candidates import Candidate
from clearhead.checker.infer import attention_setups, function_calls, library
from clearhead.checker.modules import TRIED, module_setups, with_load
from clearhead.checker.setup import ATTENTION, Flags, Setup, names_in
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject, environment, evaluate
from clearhead.checker.tasks import probe_module, stepping
from clearhead.checker.weights import sizes


def plans(
    subject: Subject, source: Source, candidate: Candidate | None, task: str, flags: Flags
) -> Iterator[list[Setup]]:
    """Groups of setups, one for each reading of the signature, likeliest first; in a group likeliest first too.

    Raises CannotRunError in plain words when there is none.
    """
    if task == "causal_mask" and attention_of(candidate, flags) != task:
        for group in plans(subject, source, candidate, attention_of(candidate, flags), flags):
            yield [s if "causal" in s.uses else replace(s, causal=True) for s in group]
        return
    if task not in ATTENTION:
        yield from simple_plans(subject, source, candidate, task, flags)
        return
    count = 0
    for base, roles in bases(subject, source, candidate, task, flags):
        count += 1
        ready = one_head(subject, with_file_sizes(subject, base))
        found = attention_setups(subject, source, ready, roles, flags)
        yield found + [replace(setup, single=True) for setup in found[:4]]
    if not count:
        raise CannotRunError("its parameters do not tell where queries, keys and values go; say it with --call")


def bases(
    subject: Subject, source: Source, candidate: Candidate | None, task: str, flags: Flags
) -> Iterator[tuple[Setup, dict[str, str]]]:
    """The calls of attention, each with parameter -> role."""
    empty = Setup(task, "0", rank=0, returns=flags.returns)
    if flags.call:
        call, rank = unsliced(checked(flags.call))
        base = replace(empty, call=call, rank=rank)
        yield with_load(subject, source, base), roles_of_call(source, call)
    elif candidate is None:
        raise CannotRunError("nothing to call was found; say how with --call")
    elif isinstance(candidate.node, ast.ClassDef):
        yield from module_setups(subject, source, candidate, empty)
    else:
        for call, roles in function_calls(candidate.node, source, task):
            given = set(roles.values())
            lone = task == "sdpa" and "K" in given and "V" not in given
            yield replace(empty, call=call, variant="weights" if lone else ""), roles


def one_head(subject: Subject, base: Setup) -> Setup:
    """A call that names no number of heads: the module's own number, else one head, which may do without W_o."""
    if base.task != "sdpa" and "load" in base.uses and not base.sizes and "Hkv" not in base.uses:
        known, _ = loaded_sizes(subject, base)
        if known.get("Hkv") == 1 != known.get("H", 1):
            return replace(base, sizes=(("Hkv", 1),), variant="grouped")
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


def unsliced(call: str) -> tuple[str, int]:
    """A call on one head of one sample, f(Q[0, 0], ...), as f(Q, ...), and the axes that Q then has (0: it may be any).

    So its answers can be compared with those of all heads and samples.
    """
    cuts = re.findall(r"\b(?:Q|K|V|x|mem)\[(0(?:, ?0)?)\]", call)
    if not cuts or len(set(cuts)) > 1:
        return call, 0
    return re.sub(r"\b(Q|K|V|x|mem|mask|src_mask|tgt_mask)\[0(?:, ?0)?\]", r"\1", call), 2 if "," in cuts[0] else 3


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


def simple_plans(
    subject: Subject, source: Source, candidate: Candidate | None, task: str, flags: Flags
) -> Iterator[list[Setup]]:
    """Masks, positions, shifts and caches: the calls from the task's own module."""
    if task == "kv_cache":
        yield from stepping.plans(subject, source, candidate, flags)
        return
    base, module = Setup(task, "0", returns=flags.returns), probe_module(task)
    if flags.call:
        calls = [replace(base, call=checked(flags.call))]
    elif candidate is None:
        raise CannotRunError("nothing to call was found; say how with --call")
    else:
        calls = module.calls(subject, source, candidate, base)
    if not calls:
        raise CannotRunError(f"the parameters of {source.name} do not say what they are; say it with --call")
    for call in calls:
        made = [replace(call, lib=lib) for lib in library(source, flags)]
        group = [with_file_sizes(subject, v) for setup in made for v in module.variants(source, setup, flags)]
        yield group
        if hasattr(module, "fallback"):
            yield module.fallback(group)
