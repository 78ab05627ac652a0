"""Mistakes in the values of a mask that a function builds."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.bank.mask import RULE, SMALL
from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import by_length

TASKS = ("causal_mask",)


def valued(value: Any, seen: Any = 1.0) -> Any:
    """Hidden places hold `value`, visible ones `seen` (1 stands for 0 in an additive mask)."""
    return {"result": lambda c: np.where(c.seen, seen, value)}


def column(c: Any) -> Any:
    keep = by_length(c)
    if keep is None:
        raise ValueError("no padding")
    return keep.reshape(c.batch, c.keys)


def lengthwise(c: Any) -> Any:
    keep = column(c)
    if c.keys != c.queries:
        raise ValueError("does not fit")
    return keep[:, :, None]


def outer(c: Any) -> Any:
    keep = column(c)
    return keep[:, :, None] & keep[:, None, :]


def bare(c: Any) -> Any:
    keep = column(c)
    np.broadcast_shapes(keep.shape, (c.queries, c.keys))
    return keep[None]


def square(c: Any, size: Any) -> Any:
    """The triangle without regard to the other length."""
    if c.lengths is not None:
        raise ValueError("padding is something else")
    return np.tri(size, size)


def joined(c: Any) -> Any:
    if c.padding is None or c.ahead is None:
        raise ValueError("one mask only")
    return c.padding | c.ahead


MISTAKES = (
    Mistake(
        "mask-inverted",
        "The mask is the wrong way round: it hides what should be seen.",
        f"Turn the condition round. {RULE}",
        ({"result": lambda c: 1.0 - c.seen}, {"padding": lambda c: ~by_length(c)}),
        TASKS,
    ),
    Mistake(
        "mask-nan-zero-times-inf",
        "0 times infinity is not a number: NaN stands where the mask should say visible.",
        "Choose instead of multiply: where(keep, 0, -inf).",
        (valued(0.0, np.nan), valued(np.nan, np.nan)),
        TASKS,
    ),
    Mistake(
        "mask-sign",
        "Hidden places hold plus infinity.",
        f"Minus infinity. {RULE}",
        (valued(np.inf), valued(1e9)),
        TASKS,
    ),
    Mistake(
        "mask-too-small",
        "The number for hidden places is too small to be minus infinity.",
        f"Use -inf. {RULE}",
        tuple(valued(v) for v in SMALL),
        TASKS,
    ),
    Mistake(
        "mask-zero-before-softmax",
        "Hidden places hold 0, which hides nothing when it is added or put in place of scores.",
        f"Use minus infinity. {RULE}",
        (valued(1.0), valued(1.0, 2.0), valued(1e-9)),
        TASKS,
    ),
    Mistake(
        "mask-row-instead-of-column",
        "The padding hides rows (queries) instead of columns (keys).",
        "Give it the axes (B, 1, 1, T_k).",
        ({"padding": lengthwise},),
        TASKS,
    ),
    Mistake(
        "mask-rows-and-columns",
        "The padding hides rows as well as columns, so padded queries see nothing at all.",
        "Hide padded keys only.",
        ({"padding": outer},),
        TASKS,
    ),
    Mistake(
        "mask-batch-broadcast",
        "A (B, T_k) mask is joined without a new axis; when B equals T_q it silently hides other keys.",
        "Add the axis: mask[:, None, :].",
        ({"padding": bare},),
        TASKS,
    ),
    Mistake(
        "length-off-by-one",
        "One padded key too many (or one real key too few) counts: position < length, not <=.",
        "keep = arange(T_k) < length.",
        ({"padding": lambda c: by_length(c, 1)}, {"padding": lambda c: by_length(c, -1)}),
        TASKS,
    ),
    Mistake(
        "mask-wrong-operator",
        "Two masks are joined with the wrong operator, so the future or the padding is visible.",
        "Keep masks are joined with & (both must allow), hide masks with | (either hides).",
        ({"keep": joined},),
        TASKS,
    ),
    Mistake(
        "causal-square-only",
        "The triangle is T_q by T_q. With more keys than queries (a cache) it does not fit the scores.",
        "Make it T_q by T_k and count the queries from the end: j <= i + (T_k - T_q).",
        ({"result": lambda c: square(c, c.queries)}, {"result": lambda c: square(c, c.keys)}),
        TASKS,
    ),
    Mistake(
        "mask-not-assigned",
        "The padding has no effect on the mask.",
        "Join both: keep = padding & triangle.",
        ({"padding": lambda c: None}, {"keep": lambda c: None}),
        TASKS,
    ),
)
