"""Probes and answers for attention with a key/value cache: the steps together must equal one full pass."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from clearhead.checker.engine import Case, Failed
from clearhead.checker.layout import give, take
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.setup import Setup
from clearhead.checker.subject import evaluate, to_lib, to_numpy
from clearhead.checker.tasks.attend import CORE
from clearhead.checker.tasks.heads import merge, split
from clearhead.reference import attention

#          name                    B  H  chunks            needed
PROBES = (
    ("five single steps", 2, 3, (1, 1, 1, 1, 1), True),
    ("one step", 2, 3, (1,), False),
    ("prompt of 4, then steps", 2, 3, (4, 1, 1, 1), False),
    ("chunks of 3 and 2", 2, 3, (3, 2), False),
    ("two steps, B = H", 3, 3, (1, 1), True),
    ("one sample", 1, 2, (1, 1, 1), False),
    ("second sequence", 2, 3, (1, 1, 1), True),
)
MAXLEN, WINDOW = 16, 3


def joined(old: Any, new: Any) -> Any:
    return new if old is None else np.concatenate([old, new], axis=-2)


def projections(c: Any) -> Any:
    """q, k and v [B H n E] of a step that takes x."""
    return tuple(split(c.moved @ c.sizes[f"W{name}"], c.sizes["H"]) for name in "qkv")


STEP: Change = {
    "positions": lambda c: np.arange(c.past, c.past + c.q_new.shape[-2], dtype=np.float64),
    "moved": lambda c: None if c.x_new is None else c.x_new,
    "made": lambda c: (c.q_new, c.k_new, c.v_new) if c.x_new is None else projections(c),
    "q": lambda c: c.made[0],
    "new": lambda c: c.made[1:],
    "stored": lambda c: (joined(c.old[0], c.new[0]), joined(c.old[1], c.new[1])),
    "read": lambda c: c.stored,
    "k": lambda c: c.read[0],
    "v": lambda c: c.read[1],
    **CORE,
}


def probes(setup: Setup) -> list[Case]:
    cases = []
    fixed = dict(setup.sizes)
    for seed, (name, batch, heads, chunks, needed) in enumerate(PROBES):
        if max(chunks) > 1 and setup.form == "single steps":
            continue
        rng = np.random.default_rng(90 + seed)
        heads = fixed.get("H", heads)
        size = fixed["D"] // heads if "D" in fixed else 6
        lead = {2: (), 3: (batch,), 4: (batch, heads)}[setup.rank]
        tensors = {n: rng.standard_normal((*lead, sum(chunks), size)) for n in "qkv"}
        names: dict[str, Any] = {"B": batch, "H": heads, "Hkv": heads, "maxlen": MAXLEN, "dk": size, "d": size}
        names |= {"T": sum(chunks), "n": 1, "D": size * heads, "max_len": MAXLEN, "mask": None, "window": WINDOW}
        context = {**tensors, "chunks": chunks, "style": "nan", "twice": name == "second sequence"}
        if projected(setup):
            project(rng, names, context, batch, heads, size)
        cases.append(Case(name, names, context, needed))
    return cases


def projected(setup: Setup) -> bool:
    """Whether the step takes x and projects it."""
    return bool(setup.uses & {"load", "Wq", "Wqkv"})


def project(rng: Any, names: dict[str, Any], context: dict[str, Any], batch: int, heads: int, size: int) -> None:
    """Weights and an x for a step that makes its own q, k and v."""
    wide, count = heads * size, sum(context["chunks"])
    for name in ("Wq", "Wk", "Wv", "Wo"):
        names[name] = rng.standard_normal((wide, wide)) * 1.3 / np.sqrt(wide)
    names["Wqkv"] = np.concatenate([names["Wq"], names["Wk"], names["Wv"]], axis=1)
    context["x"] = rng.standard_normal((batch, count, wide))
    context |= {n: split(context["x"] @ names[f"W{n}"], heads) for n in "qkv"}


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    outs, old = [], (None, None)
    rounds = 2 if case.context["twice"] else 1
    extra = dict.fromkeys(("given", "lengths", "window", "bias")) | {"form": "qk", "causal": True, "sizes": case.names}
    extra |= {"style": style, "maxlen": MAXLEN, "window": WINDOW if "window" in setup.uses else None}
    try:
        for turn in range(rounds):
            if turn and "second" not in change:
                old = (None, None)
            start, totals = 0, list[int]()
            for i, size in enumerate(case.context["chunks"]):
                x = case.context["x"][:, start : start + size] * (1 + turn) if projected(setup) else None
                part = {f"{n}_new": case.context[n][..., start : start + size, :] * (1 + turn) for n in "qkv"}
                made = Context(**part, **extra, x_new=x, old=old, past=start, index=i, totals=totals, x=part["q_new"])
                made = work(STEP, made, change)
                old, start = made.stored, start + size
                totals = [*totals, start]
                outs.append(np.asarray(made.result))
        out = np.concatenate(outs, axis=-2)
    except Exception as error:
        return Failed(str(error))
    if not projected(setup):
        return out
    return merge(out) if setup.variant == "no out" else merge(out) @ case.names["Wo"]


def ask(trial: Any, case: Case) -> Any:
    """Runs the steps of one probe; the state goes on as the step returns it."""
    setup = trial.setup
    outs: list[Any] = []
    for turn in range(2 if case.context["twice"] else 1):
        env = trial.environment(case)
        env["attend_to"] = lambda q, k, v: attend_with(q, k, v, setup)
        env.setdefault("attend", env["attend_to"])
        env["slots"] = lambda: room(case, setup, MAXLEN)
        env["nothing"] = lambda: room(case, setup, 0)
        state = evaluate(trial.subject, setup.make, env)
        if isinstance(state, Failed):
            return state
        start = 0
        for size in case.context["chunks"]:
            for n in "qkvx" if "x" in case.context else "qkv":
                part = give(case.context[n][..., start : start + size, :] * (1 + turn), setup.layout)
                env[n] = to_lib(part, setup.lib, setup.single)
                env[n.upper()] = env[n]
            env |= {"state": state, "past": start, "n": size}
            start += size
            value = evaluate(trial.subject, setup.call, env)
            if isinstance(value, Failed):
                return value
            out, state = carry(value, state, setup)
            array = to_numpy(out)
            if array is None or array.dtype.kind != "f":
                return Failed("the step returned no numbers", "TypeError")
            trial.notes["single"] = trial.notes.get("single", False) or array.dtype == np.float32
            outs.append(take(array, setup.layout))
    try:
        return np.concatenate(outs, axis=-2)
    except ValueError as error:
        return Failed(f"the outputs of the steps do not fit together: {error}")


def room(case: Case, setup: Setup, count: int) -> Any:
    """Zeros for the keys (or values) of `count` tokens, as a caller would make them beforehand."""
    k = case.context["k"]
    empty = np.zeros((*k.shape[:-2], count, k.shape[-1]))
    layout = setup.layout if "t" in setup.layout else ""
    return to_lib(give(empty, layout), setup.lib, setup.single)


def carry(value: Any, state: Any, setup: Setup) -> tuple[Any, Any]:
    """(output, state for the next step) from what a step returned."""
    if isinstance(value, dict):
        named = next((k for k in value if re.search(r"out|^y|attn|context|result|hidden", str(k))), None)
        out = value[next(iter(value)) if named is None else named]
        rest = {k: v for k, v in value.items() if v is not out}
        if len(rest) != 1:
            return out, rest or state
        (one,) = rest.values()
        return out, state if is_array(one) and not (state is None or is_array(state)) else one
    if not isinstance(value, tuple | list) or not len(value):
        return value, state
    parts = list(value) if setup.returns != "state,out" else [value[-1], *value[:-1]]
    return parts[0], following(parts[1:], state)


def following(rest: list[Any], state: Any) -> Any:
    """The next state among what a step returned besides its output: what looks like the state, else the last two."""
    same = [part for part in rest if state is not None and type(part) is type(state) and not is_array(part)]
    if same or not rest:
        return same[0] if same else state
    holders = [part for part in rest if not is_array(part)]
    if holders:
        return holders[0]
    if len(rest) >= 2 and (state is None or isinstance(state, tuple | list)):
        return tuple(rest[-2:])
    return rest[0] if state is None or is_array(state) else state


def is_array(value: Any) -> bool:
    return hasattr(value, "shape") or isinstance(value, int | float)


def attend_with(q: Any, k: Any, v: Any, setup: Setup) -> Any:
    """Plain causal attention, for caches that only keep: queries are the last of the keys."""
    arrays = [take(np.asarray(to_numpy(x), np.float64), setup.layout) for x in (q, k, v)]
    queries, keys = arrays[0].shape[-2], arrays[1].shape[-2]
    mask = np.tri(queries, keys, keys - queries, dtype=bool)
    return to_lib(give(attention(arrays[0], arrays[1], arrays[2], mask).output, setup.layout), setup.lib, False)
