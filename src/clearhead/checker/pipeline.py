"""A formula as a row of named stages, so that a mistake is a stage with something else in it.

A stage is a function of the context `c` (what the stages before it have made) and its result becomes the attribute of
the same name: stage "weights" reads c.masked and makes c.weights. A change replaces stages by name; two changes that
touch different stages make a compound mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

Context = SimpleNamespace
Stage = Callable[[Any], Any]
Change = Mapping[str, Stage]


def work(stages: Change, context: Context, change: Change | None = None) -> Context:
    """The context after all stages; `change` stands in for the stages it names. Raises what NumPy raises."""
    with np.errstate(all="ignore"):
        for name, stage in {**stages, **(change or {})}.items():
            setattr(context, name, stage(context))
    return context


def rework(stages: Change, done: Context, change: Change) -> Context:
    """The same as `work`, from a finished context: only the first changed stage and those after it run."""
    names = list(stages)
    first = min((names.index(name) for name in change if name in stages), default=len(names))
    context = Context(**vars(done))
    with np.errstate(all="ignore"):
        for name in [*names[first:], *(name for name in change if name not in stages)]:
            setattr(context, name, (change.get(name) or stages[name])(context))
    return context


def join(first: Change, second: Change) -> Change | None:
    """Both changes at once, or None when they touch the same stage."""
    return None if first.keys() & second.keys() else {**first, **second}
