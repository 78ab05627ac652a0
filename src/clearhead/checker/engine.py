"""Diagnosis by reproduction: which mistakes of the bank give the learner's numbers on every probe."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.pipeline import Change, join

Answer = Any  # arrays of one case, or Failed


UNKNOWN = "unknown"  # the kind of a prediction that says nothing about a case


@dataclass
class Failed:
    """A case that raised, in the learner's code or in a changed reference."""

    words: str
    kind: str = ""


@dataclass
class Case:
    """One probe: what the names of the call mean, and what the reference needs.

    `needed` is False where refusing is honest (sizes a right function need not support).
    """

    name: str
    names: dict[str, Any]
    context: dict[str, Any] = field(default_factory=dict)
    needed: bool = True
    done: dict[str, Any] = field(default_factory=dict)  # finished references, by style


PAIR_SECONDS = 0.8
Way = tuple[Mistake, Change]
Predict = Callable[[Case, Change], Answer]


def close(got: Any, want: Any, tolerance: float) -> bool:
    """Equal in shape and, up to rounding, in every number; NaN equals NaN."""
    if isinstance(want, Failed) and want.kind == UNKNOWN:
        return True
    if isinstance(got, Failed) or isinstance(want, Failed):
        return isinstance(got, Failed) and isinstance(want, Failed)
    if isinstance(want, tuple):
        return (
            isinstance(got, tuple)
            and len(got) == len(want)
            and all(close(g, w, tolerance) for g, w in zip(got, want, strict=True))
        )
    if want is None:
        return True
    if got is None or isinstance(got, tuple) or got.shape != want.shape:
        return False
    gap = np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64))
    there, known = np.isfinite(want), np.isfinite(got)
    if not np.array_equal(there, known):  # which of NaN and infinity appears is chance
        return False
    size = max(1.0, float(np.abs(want[there]).max())) if there.any() else 1.0
    return not there.any() or bool(gap[there].max() <= 2 * tolerance * size)


def fits(answers: Sequence[Answer], cases: Sequence[Case], predict: Predict, change: Change, tolerance: float) -> bool:
    """Whether the reference with `change` gives the learner's answers on all cases."""
    for got, case in zip(answers, cases, strict=True):
        if isinstance(got, Failed) and not case.needed:
            continue
        if not close(got, predict(case, change), tolerance):
            return False
    return any(not isinstance(got, Failed) for got in answers)


def singles(bank: Sequence[Mistake]) -> list[Way]:
    return [(mistake, way) for mistake in bank for way in mistake.ways]


def reproduce(
    ways: Sequence[Way], answers: Sequence[Answer], cases: Sequence[Case], predict: Predict, tolerance: float
) -> tuple[list[list[Mistake]], list[Way]]:
    """(the single mistakes that give the learner's numbers, each a list of one; the ways another style may change).

    Styles of hiding differ only where a row sees nothing: a way whose first prediction is finite and wrong is settled.
    """
    found: list[list[Mistake]] = []
    open_ = list[Way]()
    for mistake, way in ways:
        first = predict(cases[0], way)
        skipped = isinstance(answers[0], Failed) and not cases[0].needed
        near = skipped or close(answers[0], first, tolerance)
        if near or isinstance(first, Failed) or not finite(first):
            open_.append((mistake, way))
        if near and [mistake] not in found and fits(answers, cases, predict, way, tolerance):
            found.append([mistake])
    return found, open_


def finite(answer: Answer) -> bool:
    parts = answer if isinstance(answer, tuple) else (answer,)
    return all(part is None or bool(np.isfinite(part).all()) for part in parts)


def reproduce_pairs(
    bank: Sequence[Mistake],
    answers: Sequence[Answer],
    cases: Sequence[Case],
    predict: Predict,
    tolerance: float,
    deadline: float,
) -> list[list[Mistake]]:
    """The pairs of mistakes that give the learner's numbers. The first case that answered sorts out nearly all.

    `deadline` is the processor time at which the search ends at the latest; one search takes PAIR_SECONDS at most.
    """
    first = [i for i, got in enumerate(answers) if not isinstance(got, Failed)][:1]
    if not first:
        return []
    probe, got = [cases[i] for i in first], [answers[i] for i in first]
    ways = [(m, way) for m in bank for way in m.ways[:2] if differs(way, probe, predict)]
    limit = min(deadline, time.process_time() + PAIR_SECONDS)
    found: list[list[Mistake]] = []
    for i, (one, way) in enumerate(ways):
        if time.process_time() > limit:
            break
        for two, other in ways[i + 1 :]:
            change = join(way, other) if one is not two else None
            if change is None or not fits(got, probe, predict, change, tolerance):
                continue
            if [one, two] not in found and fits(answers, cases, predict, change, tolerance):
                found.append([one, two])
    return found


def differs(change: Change, cases: Sequence[Case], predict: Predict) -> bool:
    """Whether a change shows on any of these cases at all."""
    return any(not close(predict(case, change), predict(case, {}), 1e-9) for case in cases)
