"""Probes and answers for attention with a key/value cache: the steps together must equal one full pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.engine import Case, Failed
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.setup import Setup
from clearhead.checker.subject import environment, evaluate, to_lib, to_numpy
from clearhead.checker.tasks.attend import CORE
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
MAXLEN = 16


def joined(old: Any, new: Any) -> Any:
    return new if old is None else np.concatenate([old, new], axis=-2)


STEP: Change = {
    "positions": lambda c: np.arange(c.past, c.past + c.q_new.shape[-2], dtype=np.float64),
    "q": lambda c: c.q_new,
    "new": lambda c: (c.k_new, c.v_new),
    "stored": lambda c: (joined(c.old[0], c.new[0]), joined(c.old[1], c.new[1])),
    "read": lambda c: c.stored,
    "k": lambda c: c.read[0],
    "v": lambda c: c.read[1],
    **CORE,
}


def probes(setup: Setup) -> list[Case]:
    cases = []
    for seed, (name, batch, heads, chunks, needed) in enumerate(PROBES):
        if max(chunks) > 1 and setup.variant == "single steps":
            continue
        rng = np.random.default_rng(90 + seed)
        lead = {2: (), 3: (batch,), 4: (batch, heads)}[setup.rank]
        tensors = {n: rng.standard_normal((*lead, sum(chunks), 6)) for n in "qkv"}
        names = {
            "B": batch,
            "H": heads,
            "maxlen": MAXLEN,
            "dk": 6,
            "d": 6,
            "T": sum(chunks),
            "n": 1,
            "D": 6 * heads,
            "max_len": MAXLEN,
        }
        context = {**tensors, "chunks": chunks, "style": "nan", "twice": name == "second sequence"}
        cases.append(Case(name, names, context, needed))
    return cases


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    outs, old, start = [], (None, None), 0
    rounds = 2 if case.context["twice"] else 1
    try:
        for turn in range(rounds):
            if turn and "second" not in change:
                old = (None, None)
            start = 0
            for i, size in enumerate(case.context["chunks"]):
                part = {f"{n}_new": case.context[n][..., start : start + size, :] * (1 + turn) for n in "qkv"}
                extra = {
                    "given": None,
                    "form": "qk",
                    "causal": True,
                    "lengths": None,
                    "window": None,
                    "bias": None,
                    "sizes": case.names,
                }
                made = work(
                    STEP,
                    Context(**part, **extra, old=old, past=start, index=i, style=style, maxlen=MAXLEN, x=part["q_new"]),
                    change,
                )
                old, start = made.stored, start + size
                outs.append(np.asarray(made.result))
        return np.concatenate(outs, axis=-2)
    except Exception as error:
        return Failed(str(error))


def ask(trial: Any, case: Case) -> Any:
    """Runs the steps of one probe; the state goes on as the step returns it."""
    setup, subject = trial.setup, trial.subject
    outs: list[Any] = []
    for turn in range(2 if case.context["twice"] else 1):
        env = environment(subject, case.names, setup.lib, setup.single)
        env["attend"] = lambda q, k, v: attend_with(q, k, v, setup.lib)
        state = evaluate(subject, setup.make, env)
        if isinstance(state, Failed):
            return state
        start = 0
        for size in case.context["chunks"]:
            for n in "qkv":
                part = case.context[n][..., start : start + size, :] * (1 + turn)
                env[n] = to_lib(part, setup.lib, setup.single)
                env[n.upper()] = env[n]
            start += size
            env["state"] = state
            value = evaluate(subject, setup.call, env)
            if isinstance(value, Failed):
                return value
            out, state = carry(value, state)
            array = to_numpy(out)
            if array is None or array.dtype.kind != "f":
                return Failed("the step returned no numbers", "TypeError")
            outs.append(array)
    try:
        return np.concatenate(outs, axis=-2)
    except ValueError as error:
        return Failed(f"the outputs of the steps do not fit together: {error}")


def carry(value: Any, state: Any) -> tuple[Any, Any]:
    """(output, state for the next step) from what a step returned."""
    if not isinstance(value, tuple | list) or not len(value) or not hasattr(value[0], "shape"):
        return value, state
    if len(value) == 1:
        return value[0], state
    if len(value) == 3 and isinstance(state, tuple | list):
        return value[0], (value[1], value[2])
    own = not isinstance(state, tuple | list | dict) and state is not None and not hasattr(state, "shape")
    if own and not isinstance(value[1], type(state)):
        return value[0], state
    return value[0], value[1]


def attend_with(q: Any, k: Any, v: Any, lib: str) -> Any:
    """Plain causal attention, for caches that only keep: queries are the last of the keys."""
    arrays = [np.asarray(to_numpy(x), np.float64) for x in (q, k, v)]
    queries, keys = arrays[0].shape[-2], arrays[1].shape[-2]
    mask = np.tri(queries, keys, keys - queries, dtype=bool)
    return to_lib(attention(arrays[0], arrays[1], arrays[2], mask).output, lib, False)
