"""The stages from queries, keys and values to the output of attention: the reference that mistakes are made in.

Context: q [... Q E], k [... K E], v [... K E'], `given` (the mask as the learner gets it, boolean, True = may attend,
or None), `form` (which axes it has), `causal`, `lengths`, `window`, `sizes`. Scores are [... Q K] with the same leading
axes as q. Source: Vaswani et al. 2017, section 3.2.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.pipeline import Change
from clearhead.reference import causal_mask

FORMS = ("bhqk", "b1qk", "bqk", "qk", "b11k", "b1k", "bk", "11qk", "1qk")


def swap(x: Any) -> Any:
    """The last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def spread(mask: Any, form: str, rank: int) -> Any:
    """A mask of axes `form`, with the axes it lacks put where scores of this rank want them."""
    axes = {"bk": "b1k", "qk": "1qk", "k": "11k"}.get(form, form)
    if rank == 2:
        return mask.reshape(mask.shape[-2:]) if mask.ndim > 2 else mask
    if rank == 4 and len(axes) == 3:
        axes = axes[0] + "1" + axes[1:]
    wanted = [1 if letter == "1" else None for letter in axes]
    sizes = iter([size for size, letter in zip(mask.shape, form, strict=True) if letter != "1"])
    return mask.reshape([one or next(sizes) for one in wanted])


def triangle(c: Any, shift: int = 0) -> Any:
    """[Q K], a query sees keys up to its own position (bottom-right aligned), `shift` further."""
    queries, keys = c.scaled.shape[-2:]
    return np.tri(queries, keys, keys - queries + shift, dtype=bool) if shift else causal_mask(queries, keys)


def distance(c: Any) -> Any:
    """[Q K], how far a key lies before its query."""
    queries, keys = c.scaled.shape[-2:]
    return np.arange(keys - queries, keys)[:, None] - np.arange(keys)[None, :]


def both(*masks: Any) -> Any:
    """The and of the masks that are there, or None."""
    there = [mask for mask in masks if mask is not None]
    if not there:
        return None
    out = there[0]
    for mask in there[1:]:
        out = out & mask
    return out


def by_length(c: Any, extra: int = 0) -> Any:
    """Keys before each sample's length, in the scores' rank, or None."""
    if c.lengths is None:
        return None
    keys = c.scaled.shape[-1]
    kept = np.arange(keys)[None, :] < np.asarray(c.lengths)[:, None] + extra  # [B K]
    return spread(kept, "bk", c.scaled.ndim)


def padding(c: Any) -> Any:
    """What hides keys besides the triangle: the given mask and the lengths."""
    given = None if c.given is None else spread(c.given, c.form, c.scaled.ndim)
    return both(given, by_length(c))


def ahead(c: Any) -> Any:
    """What hides the future, or None."""
    near = None if c.window is None else distance(c) < c.window
    return both(triangle(c) if c.causal else None, near)


STYLES = (
    "nan",
    "zero",
    "replace",
    "add",
)  # what a row that sees nothing becomes; all are right, rows that see are equal


def hide(c: Any, keep: Any) -> Any:
    """The scores with hidden keys out of the way, in the learner's style of doing so."""
    if keep is None:
        return c.biased
    if c.style == "add":
        return c.biased + np.where(keep, 0.0, -1e9)
    return np.where(keep, c.biased, -1e9 if c.style == "replace" else -np.inf)


def soft(c: Any, x: Any, axis: Any = -1) -> Any:
    """softmax along `axis` (one axis or several); all -inf gives NaN, or zeros in the style that patches them."""
    top = x.max(axis=axis, keepdims=True)
    raised = np.exp(x - np.where(np.isneginf(top), 0.0, top))
    weights = raised / raised.sum(axis=axis, keepdims=True)
    return np.nan_to_num(weights, nan=0.0) if c.style == "zero" else weights


def widened(c: Any, z: Any) -> Any:
    """Key/value heads repeated for their groups of query heads, where there are fewer."""
    fewer = c.q.ndim == 4 and z.ndim == 4 and 1 < z.shape[1] < c.q.shape[1]
    return np.repeat(z, c.q.shape[1] // z.shape[1], axis=1) if fewer else z


CORE: Change = {
    "roles": lambda c: (c.q, widened(c, c.k), widened(c, c.v)),
    "scores": lambda c: c.roles[0] @ swap(c.roles[1]),
    "scaled": lambda c: c.scores / np.sqrt(c.q.shape[-1]),
    "biased": lambda c: c.scaled if c.bias is None else c.scaled + c.bias,
    "padding": padding,
    "ahead": ahead,
    "keep": lambda c: both(c.padding, c.ahead),
    "masked": lambda c: hide(c, c.keep),
    "weights": lambda c: soft(c, c.masked),
    "used": lambda c: c.weights,
    "values": lambda c: c.roles[2],
    "out": lambda c: c.used @ c.values,
    "shown": lambda c: c.weights,
    "result": lambda c: c.out,
}
