"""The bank: every known mistake with its words and its ways, and the conventions that are no mistakes."""

from __future__ import annotations

import functools

from clearhead.checker.bank import cache as cached
from clearhead.checker.bank import (
    causal,
    cross,
    heads,
    mask,
    masks,
    padding,
    position,
    product,
    projections,
    scale,
    shift,
    softmax,
)
from clearhead.checker.bank.conventions import ATTENTION_CONVENTIONS, CONVENTIONS, allowed
from clearhead.checker.mistake import Mistake

__all__ = ["CONVENTIONS", "TOP_LEFT", "Mistake", "allowed", "every", "for_task", "known"]

TOP_LEFT = list(ATTENTION_CONVENTIONS[:1])
MODULES = (cached, causal, masks, projections, heads, cross, scale, softmax, mask, padding, product, position, shift)


def every() -> list[Mistake]:
    """All entries, in the order in which they are preferred when several give the same numbers."""
    return [mistake for module in MODULES for mistake in module.MISTAKES]


@functools.cache
def for_task(task: str) -> tuple[Mistake, ...]:
    return tuple(mistake for mistake in every() if task in mistake.tasks)


@functools.cache
def known() -> dict[str, Mistake]:
    """The first entry of each id."""
    found: dict[str, Mistake] = {}
    for mistake in every():
        found.setdefault(mistake.id, mistake)
    return found
