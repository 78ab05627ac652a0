"""Mistakes with the two sides of cross-attention, and with separate inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.bank.heads import TASKS
from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import padding, spread
from clearhead.checker.tasks.heads import grouped, split


def sources(make: Any) -> Any:
    return {"sources": make}


def other_mask(c: Any) -> Any:
    """The target's mask where the source's belongs."""
    if c.other is None:
        raise ValueError("no other mask")
    keep = spread(c.other, c.other_form, 4)
    np.broadcast_shapes(keep.shape, c.scaled.shape)
    if np.broadcast_shapes(keep.shape, c.scaled.shape) != c.scaled.shape:
        raise ValueError("does not fit")
    return keep


def by_queries(c: Any) -> Any:
    k = c.projected[1]
    return grouped(c, split(k.reshape(k.shape[0], c.x.shape[1], -1), c.groups))


def triangle_too(c: Any, shift: Any) -> Any:
    queries, keys = c.scaled.shape[-2:]
    tri = np.tri(queries, keys, keys - queries if shift is None else shift, dtype=bool)
    pad = padding(c)
    return tri if pad is None else tri & pad


MISTAKES = (
    Mistake(
        "key-length-from-query",
        "Keys and values are split with the queries' length. In cross-attention the lengths differ and it fails.",
        "Use each input's own length, or -1.",
        ({"k": lambda c: by_queries(c)},),
        tasks=TASKS,
    ),
    Mistake(
        "cross-roles-swapped",
        "Queries come from the encoder and keys and values from the decoder: the output is as long as the source.",
        "q from x (decoder); k and v from memory (encoder).",
        (sources(lambda c: (c.y_k, c.x, c.x)), sources(lambda c: (c.y_k, c.x, c.y_v))),
        tasks=("cross_attention",),
    ),
    Mistake(
        "cross-uses-self",
        "The encoder's output is not used: queries, keys and values all come from the decoder.",
        "k and v from memory (encoder).",
        (sources(lambda c: (c.x, c.x, c.x)),),
        tasks=("cross_attention",),
    ),
    Mistake(
        "kv-inputs-ignored",
        "The query is used for all three: the key and value arguments have no effect.",
        "k = key W_k, v = value W_v.",
        (
            sources(lambda c: (c.x, c.x, c.x)),
            sources(lambda c: (c.x, c.y_k, c.y_k)),
            sources(lambda c: (c.x, c.x, c.y_v)),
        ),
        tasks=("multi_head_attention",),
    ),
    Mistake(
        "cross-value-from-decoder",
        "Keys come from the encoder but values from the decoder.",
        "k and v both from memory (encoder).",
        (sources(lambda c: (c.x, c.y_k, c.x)), sources(lambda c: (c.x, c.x, c.y_v))),
        tasks=("cross_attention",),
    ),
    Mistake(
        "cross-wrong-mask",
        "The target's padding mask is used on the source. When both are equally long nothing complains.",
        "Cross-attention hides the source's padding: the keys are the source's.",
        ({"padding": other_mask},),
        tasks=("cross_attention",),
    ),
    Mistake(
        "cross-causal",
        "The triangle is applied to cross-attention: the first target token sees one source token.",
        "A decoder token may see the whole source; hide its padding only.",
        (
            {"keep": lambda c: triangle_too(c, 0)},
            {"keep": lambda c: triangle_too(c, None)},
        ),
        tasks=("cross_attention",),
    ),
)
