"""Variations of a probe: one input moved, a query that sees nothing, a finite bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.engine import Case
from clearhead.checker.setup import Setup
from clearhead.checker.tasks.probes import as_given, build, size_table


def build_like(setup: Setup, case: Case, name: str, change: Any) -> Case:
    """The probe with `change` added to one of its inputs."""
    old, new = case.names[name], case.names[name] + change
    context = {key: new if value is old else value for key, value in case.context.items()}
    if name == "Wqkv":
        context["wq"], context["wk"], context["wv"] = np.split(new, 3, axis=1)
    return Case(case.name, {**case.names, name: new}, context, case.needed)


def hidden_row(setup: Setup) -> Case | None:
    """A probe in which the second query (or sample) sees nothing, or None when nothing can be hidden."""
    if not setup.uses & {"mask", "src_mask"} or setup.mask in ("none", "lengths"):
        return None
    size = size_table(setup)[0][1]
    case = build(setup, "a query that sees nothing", size, 0, masked=True)
    keep = case.context["given"].copy()
    if "q" in setup.form:
        keep[..., min(1, keep.shape[-2] - 1), :] = False
    else:
        keep[0] = False
    case.context["given"] = keep
    for name in setup.uses & {"mask", "src_mask"}:
        case.names[name] = as_given(keep, setup)
    return case


def biased(setup: Setup) -> Case:
    """A probe with a finite additive bias besides the mask."""
    return build(setup, "finite bias", size_table(setup)[0][1], 26, masked=True, causal=True, bias=True)
