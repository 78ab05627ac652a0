"""Mistakes with the triangle and the window."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import distance, triangle

RULE = "a query at position i sees keys j <= i: torch.ones(T, T).tril().bool() is True where it may attend."
TASKS = ("sdpa", "multi_head_attention", "cross_attention", "causal_mask", "kv_cache")


def ahead(see: Any, window: Any = True) -> Any:
    """The change whose view of the past is `see(c)`, with the window as it should be."""

    def stage(c: Any) -> Any:
        if not c.causal:
            return None
        keep = see(c)
        near = distance(c) < c.window if window and c.window is not None else None
        return keep if near is None else keep & near

    return {"ahead": stage}


def corner(c: Any, shift: Any = 0) -> Any:
    """A triangle that starts in the top left corner."""
    queries, keys = c.scaled.shape[-2:]
    return np.tri(queries, keys, shift, dtype=bool)


def corner_of_several(c: Any) -> Any:
    """The same, but a single query sees everything: is_causal=queries > 1."""
    queries, keys = c.scaled.shape[-2:]
    return corner(c) if queries > 1 else np.ones((1, keys), dtype=bool)


def square(c: Any) -> Any:
    queries = c.scaled.shape[-2]
    keep = np.tri(queries, queries, dtype=bool)
    np.broadcast_shapes(keep.shape, c.scaled.shape)
    return keep


def other_axes(c: Any) -> Any:
    """The triangle laid over heads and keys (or batch and keys)."""
    if c.scaled.ndim == 4:
        return np.tri(c.scaled.shape[1], c.scaled.shape[3], dtype=bool)[None, :, None, :]
    if c.scaled.ndim == 3:
        return np.tri(c.scaled.shape[0], c.scaled.shape[2], dtype=bool)[:, None, :]
    raise ValueError("no other axes")


def windowed(near: Any) -> Any:
    def stage(c: Any) -> Any:
        return near(c, distance(c), c.window) if c.window is not None else (triangle(c) if c.causal else None)

    return {"ahead": stage}


def twice(c: Any) -> Any:
    queries, keys = c.scaled.shape[-2:]
    return np.tri(queries, keys, 2 * (keys - queries), dtype=bool)


MISTAKES = (
    Mistake(
        "causal-missing",
        "The future is not hidden. In training the model can copy the answer; in generation it then fails.",
        f"Hide the future: {RULE}",
        ({"ahead": lambda c: None if c.window is None else distance(c) < c.window}, {"ahead": lambda c: None}),
        tasks=TASKS,
    ),
    Mistake(
        "causal-dropped",
        "The triangle is forgotten as soon as a mask is given: the future is visible only when both are asked for.",
        "Join them: keep = mask & triangle.",
        ({"keep": lambda c: c.padding if c.padding is not None else c.ahead},),
        tasks=("sdpa", "multi_head_attention", "cross_attention"),
    ),
    Mistake(
        "causal-reversed",
        "The triangle is the wrong way round: the past is hidden and the future is visible.",
        f"Keep the lower triangle. {RULE}",
        (
            ahead(lambda c: ~triangle(c), window=False),
            ahead(lambda c: ~triangle(c, -1), window=False),
            ahead(lambda c: ~corner(c), window=False),
            ahead(lambda c: ~corner(c, -1), window=False),
        ),
        tasks=TASKS,
    ),
    Mistake(
        "causal-diagonal-excluded",
        "A token cannot see itself; the first one sees nothing at all (NaN, or an average over everything).",
        f"Keep the diagonal: triu(diagonal=1) hides, tril() keeps. {RULE}",
        (ahead(lambda c: triangle(c, -1)), ahead(lambda c: corner(c, -1))),
        tasks=TASKS,
    ),
    Mistake(
        "causal-one-ahead",
        "Each token sees the next one too, which is exactly the one it should predict.",
        f"Start one further: triu(diagonal=1) hides, tril(diagonal=0) keeps. {RULE}",
        (ahead(lambda c: triangle(c, 1)), ahead(lambda c: corner(c, 1))),
        tasks=TASKS,
    ),
    Mistake(
        "causal-square-only",
        "The triangle is T_q by T_q. With more keys than queries (a cache, cross-attention) it does not fit.",
        "Make it T_q by T_k and count the queries from the end: j <= i + (T_k - T_q).",
        (ahead(square),),
        tasks=TASKS,
    ),
    Mistake(
        "causal-top-left",
        "The triangle starts top left although earlier keys are there: a new token sees only the first keys.",
        "Count the queries from the end: j <= i + (T_k - T_q).",
        (ahead(corner), ahead(corner_of_several)),
        tasks=("causal_mask", "kv_cache"),
    ),
    Mistake(
        "causal-offset-double",
        "The number of past tokens is counted twice, so nothing inside a chunk is hidden.",
        "Count it once: j <= i + (T_k - T_q).",
        (ahead(twice),),
        tasks=TASKS,
    ),
    Mistake(
        "causal-wrong-axes",
        "The triangle lies over other axes than queries and keys, so some of the future is visible.",
        "Its last two axes must be (T_q, T_k).",
        (ahead(other_axes),),
        tasks=("sdpa", "multi_head_attention", "cross_attention"),
    ),
    Mistake(
        "window-off-by-one",
        "The window is one token too wide or too narrow: a query sees `window` keys, its own included.",
        "keep = (j <= i) & (i - j < window).",
        (
            windowed(lambda c, far, w: triangle(c) & (far <= w)),
            windowed(lambda c, far, w: triangle(c) & (far < w - 1)),
        ),
        tasks=TASKS,
    ),
    Mistake(
        "window-not-causal",
        "The window reaches to both sides, so the future is visible.",
        "keep = (j <= i) & (i - j < window), without abs.",
        (
            windowed(lambda c, far, w: np.abs(far) < w),
            windowed(lambda c, far, w: np.abs(far) <= w),
            windowed(lambda c, far, w: np.abs(far) <= w // 2),
            windowed(lambda c, far, w: far < w),
        ),
        tasks=TASKS,
    ),
)
