"""Mistakes with the key/value cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake

TASKS = ("kv_cache",)
RULE = "k_cache = cat([k_cache, k_new]), v_cache = cat([v_cache, v_new]) along the tokens, then attend to all."


def entry(name: str, says: str, fix: str, *ways: Any) -> Mistake:
    return Mistake(name, says, f"{fix} {RULE}", ways, TASKS)


def joined(old: Any, new: Any, axis: Any = -2) -> Any:
    return new if old is None else np.concatenate([old, new], axis=axis)


def along(axis: Any) -> Any:
    return {"stored": lambda c: (joined(c.old[0], c.new[0], axis), joined(c.old[1], c.new[1], axis))}


def slots(c: Any) -> Any:
    """All slots of a cache of fixed length, zeros where nothing was written yet."""
    return tuple(
        np.concatenate([x, np.zeros((*x.shape[:-2], c.maxlen - x.shape[-2], x.shape[-1]))], -2) for x in c.stored
    )


def one_more(c: Any) -> Any:
    """What is written, and one empty slot."""
    return tuple(np.concatenate([x, np.zeros((*x.shape[:-2], 1, x.shape[-1]))], -2) for x in c.stored)


def late(c: Any) -> Any:
    """What was stored before this step; the first step has only itself."""
    return c.stored if c.old[0] is None else c.old


def empty(c: Any) -> Any:
    if c.old[0] is None:
        return c.stored[0][..., :0, :], c.stored[1][..., :0, :]
    return c.old


def started(shift: Any) -> Any:
    return {"positions": lambda c: np.arange(c.q_new.shape[-2], dtype=np.float64) + shift(c)}


MISTAKES = (
    entry(
        "cache-overwrites",
        "Each step replaces the cache, so a token sees only itself.",
        "Append.",
        {"stored": lambda c: c.new},
        {"read": lambda c: c.new},
        {"stored": lambda c: c.new, "read": lambda c: tuple(map(joined, c.old, c.new))},
    ),
    entry(
        "cache-order",
        "New keys are put before the old ones. Single steps look fine, chunks under a causal mask are wrong.",
        "Old first.",
        {
            "stored": lambda c: (
                (joined(c.new[0], c.old[0]), joined(c.new[1], c.old[1])) if c.old[0] is not None else c.new
            )
        },
        {
            "stored": lambda c: (
                (joined(c.old[0], c.new[0]), joined(c.new[1], c.old[1])) if c.old[0] is not None else c.new
            )
        },
        {
            "stored": lambda c: (
                (joined(c.new[0], c.old[0]), joined(c.old[1], c.new[1])) if c.old[0] is not None else c.new
            )
        },
    ),
    entry(
        "cache-value-from-key",
        "The value cache is filled from the keys.",
        "Store v.",
        {"stored": lambda c: (joined(c.old[0], c.new[0]), joined(c.old[1], c.new[0]))},
        {"stored": lambda c: (joined(c.old[0], c.new[0]), joined(c.old[0], c.new[1]))},
        {
            "stored": lambda c: (
                joined(c.old[0], c.new[0]),
                c.new[1] if c.old[1] is None else joined(c.old[1], c.new[0]),
            )
        },
        {"stored": lambda c: (joined(c.old[0], c.new[1]), joined(c.old[1], c.new[1]))},
        {"read": lambda c: (c.stored[0], c.stored[0])},
    ),
    entry(
        "cache-unwritten-slots",
        "Empty slots of the cache are attended too: their zero scores take weight and shrink the output.",
        "Cut the cache to what is written: k_cache[:, :, :length].",
        {"read": slots, "keep": lambda c: None},
        {"read": one_more, "keep": lambda c: None},
        {
            "read": slots,
            "keep": lambda c: np.tri(
                c.scaled.shape[-2], c.scaled.shape[-1], c.scaled.shape[-1] - c.scaled.shape[-2], dtype=bool
            ),
        },
    ),
    entry(
        "cache-append-late",
        "The step attends before its own key and value are appended, so a token does not see itself.",
        "Append first.",
        {"read": late, "keep": lambda c: None},
        {"read": empty, "keep": lambda c: None},
        {"read": late},
        {"read": lambda c: tuple(x[..., : x.shape[-2] - 1, :] for x in c.stored), "keep": lambda c: None},
    ),
    entry(
        "cache-shared-default",
        "The cache is a mutable default argument (or class attribute), so the second sequence sees the first.",
        "Make a new one: cache=None, then cache = {} inside.",
        {"second": lambda c: True},
    ),
    entry(
        "cache-position-zero",
        "Positions restart at 0 in every step: the prompt is right, the decoded tokens are not.",
        "Positions go on: arange(past, past + new).",
        started(lambda c: 0.0),
    ),
    entry(
        "cache-position-double",
        "The position grows too fast: the past is counted twice.",
        "Positions go on by one: arange(past, past + new).",
        started(lambda c: 2.0 * c.past),
        started(lambda c: c.past + c.index),
        started(lambda c: float(sum(c.totals))),
        started(lambda c: 2.0 * c.past - (c.totals[0] if c.totals else 0)),
        started(lambda c: c.past + 1.0 * (c.index > 0)),
        started(lambda c: 2.0 * c.past + c.q_new.shape[-2]),
    ),
    entry(
        "cache-wrong-dim",
        "New keys are concatenated along the batch or the heads instead of the tokens.",
        "dim=-2 of (B, H, T, E).",
        along(0),
        along(1),
        along(-1),
    ),
)
