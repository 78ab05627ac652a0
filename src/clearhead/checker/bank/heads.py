"""Mistakes with heads and projections, and with the two sides of cross-attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.heads import grouped, merge, split

TASKS = ("multi_head_attention", "cross_attention")
RULE = "(B, T, D) -> view(B, T, H, E) -> transpose(1, 2) -> (B, H, T, E), and back the same way."


def splits(how: Any, which: Any = "qkv") -> Any:
    """The change that splits q, k and v (or some of them) by `how(z, heads)`."""
    made = {
        "q": lambda c: how(c.projected[0], c.heads),
        "k": lambda c: grouped(c, how(c.projected[1], c.groups)),
        "v": lambda c: grouped(c, how(c.projected[2], c.groups)),
    }
    return {name: made[name] for name in which}


def direct(z: Any, heads: Any) -> Any:
    """view(B, H, T, E) without moving the axes."""
    return z.reshape(z.shape[0], heads, -1, z.shape[-1] // heads)


def folded(z: Any, heads: Any) -> Any:
    """view(B * H, T, E) without moving the axes, opened again."""
    return z.reshape(z.shape[0] * heads, -1, z.shape[-1] // heads).reshape(z.shape[0], heads, -1, z.shape[-1] // heads)


def strided(z: Any, heads: Any) -> Any:
    """Features split as (E, H): head h takes every H-th column."""
    return z.reshape(*z.shape[:-1], -1, heads).transpose(0, 3, 1, 2)


def merges(how: Any) -> Any:
    return {"merged": lambda c: how(c.result)}


def unfold(z: Any) -> Any:
    """[B H T E] folded as (B H), opened as (H B), then merged."""
    batch, heads, count, size = z.shape
    return merge(z.reshape(heads, batch, count, size).swapaxes(0, 1))


def unfold_merge(z: Any) -> Any:
    """Folded as (B H) and opened as (H, B), heads and batch exchanged."""
    batch, heads, count, size = z.shape
    return z.reshape(heads, batch, count, size).transpose(1, 2, 0, 3).reshape(batch, count, -1)


def opened(z: Any) -> Any:
    """Folded as (H B), as a concatenation along the batch does, and opened as (B H)."""
    batch, heads, count, size = z.shape
    return merge(z.swapaxes(0, 1).reshape(batch, heads, count, size))


def strided_merge(z: Any) -> Any:
    """[B H T E] -> [B T E*H]: features first, heads last."""
    return z.transpose(0, 2, 3, 1).reshape(z.shape[0], z.shape[2], -1)


def plain(z: Any) -> Any:
    """reshape(B, T, D) without moving the axes."""
    return z.reshape(z.shape[0], z.shape[2], -1)


def along_time(z: Any) -> Any:
    """Heads put one after another along the time, then reshaped."""
    return np.concatenate(list(z.transpose(1, 0, 2, 3)), axis=1).reshape(z.shape[0], z.shape[2], -1)


def one_head(pick: Any) -> Any:
    """The change in which every head is head `pick`."""
    return {"merged": lambda c: merge(np.repeat(c.result[:, pick : pick + 1 if pick != -1 else None], c.heads, 1))}


def picked(which: Any, index: Any = 0) -> Any:
    """Heads of q, k or v that are all the slice `index`."""
    made = {
        name: (lambda c, i=i: np.repeat(split(c.projected[i], c.heads if i == 0 else c.groups)[:, [index]], c.heads, 1))
        for i, name in enumerate("qkv")
    }
    return {name: made[name] for name in which}


def tiled(which: Any = "kv") -> Any:
    made = {
        name: (lambda c, i=i: np.tile(split(c.projected[i], c.groups), (1, c.heads // c.groups, 1, 1)))
        for i, name in ((1, "k"), (2, "v"))
    }
    return {name: made[name] for name in which}


def in_time(c: Any, z: Any) -> Any:
    """Repeated along the tokens; then heads must broadcast."""
    z = split(z, c.groups)
    if c.groups != 1:
        raise ValueError("heads do not fit")
    return np.repeat(z, c.heads // c.groups, axis=2)


def unused_tail(c: Any) -> Any:
    return c.merged


def short(c: Any) -> Any:
    raise ValueError("the last size is that of one head")


def averaged(c: Any, how: Any) -> Any:
    z = how(c.result, axis=1)
    if c.wo is None:
        return z
    return z @ c.wo if z.shape[-1] == c.wo.shape[0] else z @ c.wo[: z.shape[-1]]


def tiled_roles(c: Any) -> Any:
    """Fewer key/value heads than query heads, tiled."""
    if c.k.ndim != 4 or c.k.shape[1] in (1, c.q.shape[1]):
        raise ValueError("no groups")
    times = (1, c.q.shape[1] // c.k.shape[1], 1, 1)
    return c.q, np.tile(c.k, times), np.tile(c.v, times)


MISTAKES = (
    Mistake(
        "heads-split-no-transpose",
        "view(B, H, T, E) is taken directly: a head then holds pieces of different tokens.",
        f"Split the features first, then move the axis. {RULE}",
        (
            splits(direct),
            splits(folded),
            splits(direct, "q"),
            splits(direct, "k"),
            splits(direct, "v"),
            splits(direct, "kv"),
        ),
        tasks=TASKS,
    ),
    Mistake(
        "concat-wrong-dim",
        "The heads are concatenated along the time and then reshaped, so tokens are interleaved.",
        "torch.cat(heads, dim=-1).",
        (merges(along_time),),
        tasks=TASKS,
        hint=r"(cat|concat|concatenate|stack)\(.*(dim=|axis=|, )(0|1|-2)\)",
    ),
    Mistake(
        "heads-merge-no-transpose",
        "The heads are reshaped to (B, T, D) without moving their axis back: tokens get values of other tokens.",
        f"transpose(1, 2) before the reshape. {RULE}",
        (merges(plain), merges(lambda z: z.swapaxes(-1, -2).reshape(z.shape[0], z.shape[2], -1))),
        tasks=TASKS,
    ),
    Mistake(
        "heads-unmerge-order",
        "Batch and heads were folded in one order and opened in the other, so samples are mixed.",
        "Open them as they were folded: (B * H) -> (B, H).",
        (merges(unfold), merges(unfold_merge), merges(opened)),
        tasks=TASKS,
    ),
    Mistake(
        "heads-dim-order",
        "Features are split as (E, H) and joined as (H, E), or the reverse: W_o then gets them in another order.",
        f"The same order both ways. {RULE}",
        (
            splits(strided),
            merges(strided_merge),
            {**splits(strided), **merges(strided_merge)},
            splits(strided, "v"),
            splits(strided, "qk"),
            splits(strided, "k"),
            splits(strided, "q"),
        ),
        tasks=TASKS,
    ),
    Mistake(
        "heads-averaged",
        "The heads' outputs are averaged or summed instead of put side by side.",
        "Concatenate them along the features: H * E = d_model.",
        (
            {"answer": lambda c: averaged(c, np.mean)},
            {"answer": lambda c: averaged(c, np.sum)},
            {"answer": lambda c: c.result.mean(1)},
            {"answer": lambda c: c.result.sum(1)},
            {"merged": lambda c: merge(np.repeat(c.result.mean(1, keepdims=True), c.heads, 1))},
        ),
        tasks=TASKS,
    ),
    Mistake(
        "kv-repeat-order",
        "The key/value heads are tiled (0 1 0 1) instead of repeated (0 0 1 1): query heads get another group's keys.",
        "k.repeat_interleave(heads // kv_heads, dim=1).",
        (tiled(), tiled("k"), tiled("v"), {"roles": tiled_roles}),
        tasks=("sdpa", *TASKS),
    ),
    Mistake(
        "kv-repeat-wrong-dim",
        "The key/value heads are repeated along the tokens instead of the heads.",
        "Repeat along axis 1 of (B, G, T, E).",
        ({"k": lambda c: in_time(c, c.projected[1]), "v": lambda c: in_time(c, c.projected[2])},),
        tasks=("sdpa", *TASKS),
        hint="repeat|expand|tile",
    ),
    Mistake(
        "heads-not-divisible",
        "d_model is not divisible by the number of heads and nobody checks: the last features are silently unused.",
        "Refuse it: assert d_model % heads == 0.",
        tasks=TASKS,
    ),
    Mistake(
        "last-head-only",
        "The loop keeps only the last head, so all blocks of the concatenation are equal.",
        "Append each head's output to a list and concatenate after the loop.",
        (one_head(-1),),
        tasks=TASKS,
    ),
    Mistake(
        "head-index-unused",
        "The slice for a head ignores the index: all heads are the first one.",
        "Take columns h * E to (h + 1) * E for head h.",
        (one_head(0), *(picked(w) for w in ("qkv", "q", "k", "v", "kv", "qk"))),
        tasks=TASKS,
    ),
)
