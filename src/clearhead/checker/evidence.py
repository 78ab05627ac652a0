"""The smallest input on which a mistake shows, expected and actual numbers side by side, and what breaks."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.engine import Case, Failed, close
from clearhead.checker.judge import Trial
from clearhead.checker.properties import broken
from clearhead.checker.setup import ATTENTION
from clearhead.checker.tasks.probes import build, size_table

SMALL = (
    {"B": 1, "H": 1, "Hkv": 1, "T": 1, "S": 2, "dk": 1, "dv": 1},
    {"B": 1, "H": 1, "Hkv": 1, "T": 2, "S": 2, "dk": 2, "dv": 2},
    {"B": 1, "H": 1, "Hkv": 1, "T": 2, "S": 3, "dk": 2, "dv": 2},
    {"B": 1, "H": 2, "Hkv": 2, "T": 2, "S": 2, "dk": 2, "dv": 2},
    {"B": 1, "H": 2, "Hkv": 2, "T": 3, "S": 3, "dk": 2, "dv": 2},
    {"B": 2, "H": 2, "Hkv": 2, "T": 2, "S": 2, "dk": 3, "dv": 3},
)


def explain(trial: Trial) -> list[str]:
    """Lines for the report: the properties that break, then numbers."""
    lines = [one.words for one in broken(trial)][:3]
    case, got, want = smallest(trial) or (None, None, None)
    return lines if case is None else [*lines, *compare(trial, case, got, want)]


def smallest(trial: Trial) -> tuple[Case, Any, Any] | None:
    """(probe, got, expected) of the smallest probe that shows the mistake."""
    tried = [*tiny(trial), *sorted(trial.cases, key=bulk)]
    for case in tried:
        want = trial.predict(case, {})
        got = trial.ask(case)
        if isinstance(want, Failed) or (isinstance(got, Failed) and not case.needed):
            continue
        if not close(got, want, max(trial.tolerance, 1e-3)):
            return case, got, want
    return None


def bulk(case: Case) -> int:
    return sum(value.size for value in case.names.values() if isinstance(value, np.ndarray))


def tiny(trial: Trial) -> list[Case]:
    """Probes of a few round numbers."""
    setup = trial.setup
    if setup.task not in ATTENTION or setup.sizes:
        return []
    cases = []
    for seed, size in enumerate(SMALL):
        if size["T"] != size["S"] and setup.task != "sdpa":
            continue
        full = {**size_table(setup)[0][1], **size}
        full["D"] = full["H"] * full["dk"]
        case = build(setup, "small", full, 200 + seed, causal=True, digits=1)
        case.needed = False
        cases.append(case)
    return cases


def compare(trial: Trial, case: Case, got: Any, want: Any) -> list[str]:
    """The inputs, and the first place where the answers differ."""
    lines = ["smallest input found on which it shows:"]
    for name in sorted(trial.setup.uses & case.names.keys()):
        value = case.names[name]
        if isinstance(value, np.ndarray) and value.size <= 24:
            lines.append(f"  {name} = {short(value)}")
        elif isinstance(value, np.ndarray):
            lines.append(f"  {name}: shape {value.shape}")
        elif isinstance(value, int | float) or value is None:
            lines.append(f"  {name} = {value}")
    if isinstance(got, Failed):
        return [*lines, f"  it fails: {got.words}"]
    if isinstance(want, tuple):
        return [*lines, *(line for g, w in zip(got, want, strict=True) for line in pair(g, w))]
    return lines + pair(got, want)


def pair(got: Any, want: Any) -> list[str]:
    """Expected and actual, of the first row that differs."""
    if np.shape(got) != np.shape(want):
        return [f"  expected shape {np.shape(want)}, got {np.shape(got)}"]
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if want.ndim < 2 or want.size <= 8:
        return [] if np.array_equal(got, want) else [f"  expected {short(want)}", f"  got      {short(got)}"]
    rows_got, rows_want = got.reshape(-1, got.shape[-1]), want.reshape(-1, want.shape[-1])
    for i, (g, w) in enumerate(zip(rows_got, rows_want, strict=True)):
        if not np.allclose(g, w, atol=1e-3, equal_nan=True):
            place = ", ".join(str(int(n)) for n in np.unravel_index(i, want.shape[:-1]))
            return [f"  row [{place}] expected {short(w[:8])}", f"  row [{place}] got      {short(g[:8])}"]
    return []


def short(value: Any) -> str:
    """An array in one line, four digits."""
    return " ".join(
        np.array2string(
            np.asarray(value), precision=4, suppress_small=True, separator=", ", max_line_width=10_000
        ).split()
    )
