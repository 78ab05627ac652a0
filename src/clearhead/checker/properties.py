"""Properties of attention that hold for any input, tried on the learner's code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.checker.bank.mask import small
from clearhead.checker.engine import Case, Failed, close
from clearhead.checker.judge import Trial
from clearhead.checker.tasks.attention import reference
from clearhead.checker.tasks.variations import build_like


@dataclass
class Broken:
    """A property that does not hold: a sentence with numbers, and the mistake that it points at."""

    words: str
    points_at: str


def broken(trial: Trial) -> list[Broken]:
    """The properties that break, most telling first. Empty for tasks other than attention itself."""
    if trial.setup.task != "sdpa" or not {"Q", "K", "V"} <= trial.setup.uses:
        return []
    found = (
        probe(trial)
        for probe in (values_used, samples_apart, fill_fitted, hidden_keys, row_sums, keys_moved, scale_fitted)
    )
    return [one for one in found if one is not None]


def speak(trial: Trial) -> tuple[list[str], list[str]]:
    """(ids, lines) of the properties that break, when no mistake reproduces the numbers."""
    found = broken(trial)
    return ([found[0].points_at] if found else ["unknown-mistake"]), []


def moved(trial: Trial, name: str, change: Any) -> tuple[Any, Any, Case]:
    """(answer before, answer after, the changed probe)."""
    case = trial.cases[0]
    after = build_like(trial.setup, case, name, change)
    return trial.answers[0], trial.ask(after), after


def same(a: Any, b: Any) -> bool:
    return isinstance(a, Failed) or isinstance(b, Failed) or close(b, a, 1e-4)


def values_used(trial: Trial) -> Broken | None:
    """V doubled: the output doubles."""
    before, after, _ = moved(trial, "V", trial.cases[0].names["V"])
    if isinstance(before, Failed) or isinstance(after, Failed) or close(after, 2 * before, 1e-4):
        return None
    if close(after, before, 1e-6):
        return Broken("doubling V changes nothing: the values are not used", "value-is-key")
    return Broken("doubling V does not double the output", "residual-inside")


def samples_apart(trial: Trial) -> Broken | None:
    """Another sample changed: this one stays."""
    if trial.setup.rank == 2:
        return None
    change = np.zeros_like(trial.cases[0].names["K"])
    change[1:] = 1.0 + np.arange(change[1:].size).reshape(change[1:].shape) % 3
    before, after, _ = moved(trial, "K", change)
    if (
        isinstance(before, Failed)
        or isinstance(after, Failed)
        or before.shape != after.shape
        or close(after[0], before[0], 1e-4)
    ):
        return None
    return Broken("changing the other samples of the batch changes the first one", "attend-over-batch")


def hidden_keys(trial: Trial) -> Broken | None:
    """A hidden key and its value changed: the output stays."""
    case = trial.cases[0]
    keep = reference(trial.setup, case, {}).keep
    if keep is None:
        return None
    full = np.broadcast_to(keep, reference(trial.setup, case, {}).scaled.shape)
    row = full[(0,) * (full.ndim - 1)] if not trial.setup.causal else full[(0,) * (full.ndim - 2)][0]
    hidden = [j for j in range(len(row)) if not row[j]]
    if not hidden:
        return None
    change = np.zeros_like(case.names["V"])
    change[..., hidden[0], :] = 100.0
    before, after, _ = moved(trial, "V", change)
    first = (0,) * (before.ndim - 1) if not isinstance(before, Failed) else ()
    if isinstance(before, Failed) or isinstance(after, Failed) or close(after[first], before[first], 1e-6):
        return None
    share = float(np.abs(after[first] - before[first]).max()) / 100.0
    words = f"key {hidden[0]} is hidden from query 0, and yet it gets a weight of {share:.3g}"
    return Broken(words, "mask-not-assigned" if not trial.setup.causal else "causal-missing")


def fill_fitted(trial: Trial) -> Broken | None:
    """Which number stands for minus infinity, when it is too small to be it."""
    case, got = trial.cases[0], trial.answers[0]
    if isinstance(got, Failed) or reference(trial.setup, case, {}).keep is None:
        return None
    for value in [*-np.arange(1.0, 40.0), *-np.arange(40.0, 1000.0, 10.0), 0.5, -0.5, -0.1, 1.0]:
        for added in (False, True):
            way = small(value, added)
            want = trial.predict(case, {"masked": lambda c, way=way: c.biased if c.keep is None else way(c, c.keep)})
            if close(got, want, 1e-6):
                return Broken(f"hidden scores hold {value:g} where minus infinity belongs", "mask-too-small")
    return None


def row_sums(trial: Trial) -> Broken | None:
    """V = 1: the output is the sum of each row of weights, 1."""
    values = trial.cases[0].names["V"]
    _, after, case = moved(trial, "V", 1.0 - values)
    want = trial.predict(case, {})
    if isinstance(after, Failed) or isinstance(want, Failed) or after.shape != want.shape or close(after, want, 1e-4):
        return None
    sums = after[want != 0]
    low, high = (
        (float(np.nanmin(sums)), float(np.nanmax(sums))) if sums.size and np.isfinite(sums).any() else (np.nan, np.nan)
    )
    words = (
        f"rows of weights sum to {low:.3g}" + ("" if abs(high - low) < 1e-6 else f" ... {high:.3g}") + " instead of 1"
    )
    return Broken(words, "softmax-dim-query")


def keys_moved(trial: Trial) -> Broken | None:
    """The same vector added to every key: nothing changes."""
    size = trial.cases[0].names["K"].shape[-1]
    before, after, _ = moved(trial, "K", np.linspace(0.5, 1.5, size))
    if same(before, after):
        return None
    return Broken(
        "adding the same vector to every key changes the output; a softmax over the keys would not notice",
        "keys-reshaped",
    )


def scale_fitted(trial: Trial) -> Broken | None:
    """Which factor a makes softmax(a Q K^T) V the learner's output."""
    case, got = trial.cases[0], trial.answers[0]
    if isinstance(got, Failed):
        return None
    size = case.names["Q"].shape[-1]
    for factor in np.exp(np.linspace(np.log(1e-3), np.log(30.0), 400)):
        want = trial.predict(case, {"scaled": lambda c, a=factor: c.scores * a})
        if isinstance(want, Failed) or want.shape != got.shape:
            return None
        if close(got, want, 8e-3) and abs(factor * np.sqrt(size) - 1) > 0.02:
            words = f"the scores are multiplied by about {factor:.3g}; with d_k = {size} it should be {size**-0.5:.3g}"
            return Broken(words, "scale-hardcoded")
    return None
