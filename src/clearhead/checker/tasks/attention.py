"""Probes and answers for functions and modules that compute attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.engine import Case, Failed
from clearhead.checker.layout import give, take
from clearhead.checker.pipeline import Change, Context, rework, work
from clearhead.checker.setup import Setup
from clearhead.checker.subject import to_numpy
from clearhead.checker.tasks.attend import CORE
from clearhead.checker.tasks.heads import HEADS
from clearhead.checker.tasks.probes import probes

__all__ = ["defined_rows", "predict", "probes", "read_answer", "reference", "stages"]


def stages(setup: Setup) -> tuple[Change, str]:
    """The stages of a task, and which of them is the answer."""
    if setup.variant == "weights":
        return CORE, "shown"
    return (CORE, "result") if setup.task == "sdpa" else (HEADS, "answer")


def reference(setup: Setup, case: Case, change: Change, style: str = "nan") -> Context:
    """The context of the changed reference; what comes before the change is computed once per probe."""
    if style not in case.done:
        case.done[style] = plain(setup, case, style)
    return rework(stages(setup)[0], case.done[style], change)


def plain(setup: Setup, case: Case, style: str) -> Context:
    made = Context(**{**case.context, "style": style})
    if setup.task != "sdpa" and setup.variant == "no out":
        made.wo = None
    return work(stages(setup)[0], made)


def defined_rows(setup: Setup, case: Case) -> Any:
    """Which rows of the output are defined: a query that sees nothing is not judged."""
    if "rows" not in case.context:
        made = reference(setup, case, {})
        rows = None
        if made.keep is not None and not made.keep.any(-1).all():
            seen = np.broadcast_to(made.keep, made.scaled.shape).any(-1)  # [... Q]
            rows = seen if setup.task == "sdpa" else np.all(seen, axis=1)
        case.context["rows"] = rows
    return case.context["rows"]


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    """The output of the changed reference, undefined rows cleared; Failed when it raises."""
    try:
        made = reference(setup, case, change, style)
        out = getattr(made, stages(setup)[1])
    except Exception as error:
        return Failed(str(error))
    return clear(np.asarray(out), defined_rows(setup, case))


def clear(out: Any, rows: Any) -> Any:
    if rows is None or out.shape[: rows.ndim] != rows.shape:
        return out
    out = np.array(out, dtype=np.float64)
    out[~rows] = 0.0
    return out


def read_answer(setup: Setup, case: Case, value: Any, notes: dict[str, Any]) -> Any:
    """(output, weights or None) from what the learner returned, or Failed when no output is among it."""
    try:
        made = reference(setup, case, {})
        want = (give(getattr(made, stages(setup)[1]), setup.layout), made.shown)
    except ValueError as error:
        want = Failed(str(error))
    parts = list(value) if isinstance(value, tuple | list) and not _numbers(value) else [value]
    if isinstance(value, dict):
        parts = list(value.values())
    arrays = [to_numpy(part) for part in parts if part is not None]
    arrays = [a for a in arrays if a is not None and a.dtype.kind in "fiu"]
    if not arrays:
        return Failed("it returned no numbers", "TypeError")
    out, weights = pick(setup, arrays, want, notes)
    out = take(out, setup.layout)
    out = out[None] if setup.task != "sdpa" and len(setup.layout) == 2 else out
    return (clear(out, defined_rows(setup, case)), weights) if not isinstance(want, Failed) else want


def _numbers(value: Any) -> bool:
    """Whether a list is one array spelled out, not several results."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list | float | int)


def pick(setup: Setup, arrays: list[Any], want: Any, notes: dict[str, Any]) -> tuple[Any, Any]:
    """Which array is the output and which the weights: as flagged, else by shape, else in the usual order."""
    if len(arrays) == 1:
        return arrays[0], None
    if setup.returns is None and "order" not in notes and not isinstance(want, Failed):
        fit_out = [i for i, a in enumerate(arrays) if a.shape == want[0].shape]
        others = [i for i, a in enumerate(arrays) if a.shape == want[1].shape]
        if len(fit_out) == 1 and want[0].shape != want[1].shape:
            notes["order"] = (fit_out[0], others[0] if others else None)
    first, second = (1, 0) if setup.returns == "weights,out" else notes.get("order", (0, 1))
    shown = arrays[second] if second is not None and second < len(arrays) and setup.returns != "out" else None
    return arrays[min(first, len(arrays) - 1)], shown
