"""How a learner's code is called, and what its answers mean: given by flags or inferred."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from typing import Any

ATTENTION = ("sdpa", "multi_head_attention", "cross_attention")
TASKS = (*ATTENTION, "causal_mask", "positional_encoding", "decoder_shift", "kv_cache")


@dataclass(frozen=True)
class Setup:
    """One way to call the code. `mask` is the convention, `form` the axes, `kind` the type of the mask given."""

    task: str
    call: str
    lib: str = "torch"
    rank: int = 3  # axes of Q; 0: not known yet
    mask: str = "keep"
    form: str = "bqk"
    kind: str = "bool"
    returns: str | None = None
    causal: bool = False
    single: bool = False
    sizes: tuple[tuple[str, int], ...] = ()
    variant: str = ""
    optional: bool = True  # whether the mask may be None
    unequal: bool = False  # whether the docs promise other numbers of queries than of keys
    make: str = ""
    layout: str = ""  # the axes of the arrays, where they are not ours (see layout)

    @functools.cached_property
    def uses(self) -> frozenset[str]:
        """The names that the call mentions."""
        return names_in(self.call) | (names_in(self.make) if self.make else frozenset())


@functools.cache
def names_in(expression: str) -> frozenset[str]:
    tree = ast.parse(expression, mode="eval")
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


@dataclass
class Flags:
    """What the user said; None means infer it."""

    task: str | None = None
    call: str | None = None
    mask: str | None = None
    returns: str | None = None
    lib: str | None = None
    make: str | None = None
    step: str | None = None

    def given(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class Verdict:
    """What was found out about one task of one file."""

    task: str
    passed: bool | None
    mistakes: list[str] = field(default_factory=list)
    certainty: str = ""
    evidence: list[str] = field(default_factory=list)
    inferred: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
