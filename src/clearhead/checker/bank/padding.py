"""Mistakes with the axes of a mask, with lengths, and with joining masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.bank.mask import RULE
from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import both, by_length, spread


def raw(see: Any) -> Any:
    """The change in which the given mask is spread over the scores by `see(c)`."""

    def stage(c: Any) -> Any:
        if c.given is None:
            return by_length(c)
        return both(see(c), by_length(c))

    return {"padding": stage}


def rows(c: Any) -> Any:
    """A mask over keys laid along the queries."""
    flat = row_of(c)
    return flat[:, :, None] if c.scaled.ndim == 3 else flat[:, None, :, None]


def row_of(c: Any) -> Any:
    """[B K]: the padding mask; raises when the given mask is not one."""
    if c.form not in ("bk", "b1k", "b11k"):
        raise ValueError("not a padding mask")
    return c.given.reshape(c.given.shape[0], -1)


def outer(c: Any) -> Any:
    flat = row_of(c)
    pair = flat[:, :, None] & flat[:, None, :]
    return pair if c.scaled.ndim == 3 else pair[:, None]


def straight(c: Any, form: str) -> Any:
    """The given mask as it is, broadcast from the right as NumPy does."""
    if c.form != form:
        raise ValueError("a mask of other axes")
    if np.broadcast_shapes(c.given.shape, c.scaled.shape) != c.scaled.shape:
        raise ValueError("the mask makes the scores larger")
    return c.given


def refolded(order: Any) -> Any:
    """The change in which head h of sample b gets the mask of sample `order(b, h, B, H)`."""

    def stage(c: Any) -> Any:
        if c.scaled.ndim != 4:
            raise ValueError("no heads")
        keep = by_length(c) if c.given is None else both(spread(c.given, c.form, 4), by_length(c))
        if keep is None:
            return None
        batch, heads = c.scaled.shape[:2]
        full = np.broadcast_to(keep, c.scaled.shape)[:, 0]
        return full[order(np.arange(batch)[:, None], np.arange(heads), batch, heads)]

    return {"padding": stage}


def transposed(c: Any) -> Any:
    return np.swapaxes(spread(c.given, c.form, c.scaled.ndim), -1, -2)


def zeroed(*which: Any) -> Any:
    """The change that sets hidden keys (1) or values (2) to 0 and hides nothing from the softmax."""

    def roles(c: Any) -> Any:
        parts = [c.q, c.k, c.v]
        kept = c.lengths if c.lengths is None else np.arange(c.k.shape[-2]) < np.asarray(c.lengths)[:, None]
        keep = spread(kept, "bk", c.q.ndim) if kept is not None else None
        keep = spread(c.given, c.form, c.q.ndim) if c.given is not None else keep
        if keep is not None:
            for i in which:
                parts[i] = parts[i] * np.swapaxes(keep[..., :1, :], -1, -2)
        return tuple(parts)

    return {"roles": roles, "padding": lambda c: None}


def either(c: Any) -> Any:
    """The or of two masks where the and is meant."""
    return both(c.padding, c.ahead) if c.padding is None or c.ahead is None else c.padding | c.ahead


def output_rows(c: Any) -> Any:
    if c.padding is None:
        return c.out
    rows_seen = np.swapaxes(c.padding[..., :1, :], -1, -2)
    return c.out * rows_seen if rows_seen.shape[-2] == c.out.shape[-2] else c.out


def counted(c: Any, extra: int) -> Any:
    """The keys before each length, counted wrongly."""
    if c.lengths is None:
        raise ValueError("no lengths")
    return by_length(c, extra)


MISTAKES = (
    Mistake(
        "mask-row-instead-of-column",
        "The padding mask is laid along the queries instead of the keys: padded keys stay visible to every real query.",
        "Give it the axes (B, 1, 1, T_k): mask[:, None, None, :], so that it hides columns.",
        (raw(rows), raw(transposed)),
    ),
    Mistake(
        "mask-row-instead-of-column",
        "The padding mask is laid along the queries: it adds the same number to a whole row, which hides nothing.",
        "Give it the axes (B, 1, 1, T_k): mask[:, None, None, :], so that it hides columns.",
        ({"keep": lambda c: None}, {"padding": lambda c: None}),
        hint=r"mask\w*(\[:, None, :, None\]|\[:, :, None\]|"
        r"\.unsqueeze\(1\)\.unsqueeze\((3|-1)\)|\.unsqueeze\((2|-1)\))",
    ),
    Mistake(
        "mask-rows-and-columns",
        "The padding mask hides rows as well as columns, so padded queries see nothing: NaN "
        "or an average of everything.",
        "Hide padded keys only: mask[:, None, None, :]. What padded queries give is thrown away later.",
        (raw(outer),),
    ),
    Mistake(
        "mask-batch-broadcast",
        "A (B, T_k) mask meets (B, T_q, T_k) scores without a new axis. When B equals T_q it "
        "silently hides other keys.",
        "Add the axes: mask[:, None, :].",
        (raw(lambda c: straight(c, "bk")),),
    ),
    Mistake(
        "mask-missing-head-axis",
        "A (B, T_q, T_k) mask meets (B, H, T_q, T_k) scores without a head axis. When B equals H it is silently wrong.",
        "Add the axis: mask[:, None] or mask.unsqueeze(1).",
        (raw(lambda c: straight(c, "bqk")),),
    ),
    Mistake(
        "mask-repeat-order",
        "The mask was repeated for the heads in another order than the heads were folded: samples get other masks.",
        "Repeat each sample's mask next to itself: repeat_interleave(heads, dim=0).",
        (
            refolded(lambda b, h, batch, heads: (b * heads + h) % batch),  # samples outside, masks tiled
            refolded(lambda b, h, batch, heads: (h * batch + b) // heads),  # heads outside, masks repeated in place
        ),
    ),
    Mistake(
        "mask-on-values",
        "The values (and keys) of hidden positions are set to zero but keep their scores: rows sum to less than 1.",
        f"Hide the scores instead. {RULE}",
        (zeroed(2),),  # the numbers of mask-after-softmax
        hint=r"(?i)\b(v|vals?|values?|k|keys?)\b( = | \*= |\[).*(mask|pad|len|keep|hid)",
    ),
    Mistake(
        "mask-on-values",
        "The keys (and values) of hidden positions are set to zero, which is a score of 0: they still take weight.",
        f"Hide the scores instead. {RULE}",
        (zeroed(1, 2), zeroed(1)),
    ),
    Mistake(
        "mask-on-output",
        "Rows of the output are set to zero, but padded keys were never hidden from the real queries.",
        f"Hide padded keys before the softmax. {RULE}",
        ({"keep": lambda c: c.ahead, "result": output_rows},),
    ),
    Mistake(
        "length-off-by-one",
        "One padded key too many (or one real key too few) is counted: position < length, not <=.",
        "keep = arange(T_k) < length.",
        ({"padding": lambda c: counted(c, 1)}, {"padding": lambda c: counted(c, -1)}),
    ),
    Mistake(
        "mask-wrong-operator",
        "Two masks are joined with the wrong operator, so the future or the padding is visible.",
        "Keep masks are joined with & (both must allow), hide masks with | (either hides).",
        ({"keep": either},),
    ),
    Mistake(
        "mask-dropped",
        "With causal=True the given mask is forgotten: padding leaks only when both are asked for.",
        "Join them: keep = mask & triangle.",
        ({"keep": lambda c: c.ahead if c.ahead is not None else c.padding},),
    ),
    Mistake(
        "mask-dropped",
        "The causal mask replaces the given one: padding leaks whenever both are asked for.",
        "Join them: keep = mask & triangle.",
        ({"keep": lambda c: c.ahead if c.ahead is not None else c.padding},),
        hint=r"if \w*causal\w*:\n\s*(\w*(?:mask|keep)\w*) = (?![^\n]*\b\1\b)",
    ),
)
