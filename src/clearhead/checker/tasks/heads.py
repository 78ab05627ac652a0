"""The stages of multi-head and cross-attention, around the stages of attention itself.

Context, besides that of `attend`: x [B Q D] (queries' source), y_k, y_v [B K D] (keys' and values'), wq [D H*E],
wk, wv [D G*E], wo [H*E D] or None, heads H, groups G. Source: Vaswani et al. 2017, section 3.2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.pipeline import Change
from clearhead.checker.tasks.attend import CORE


def split(z: Any, heads: int) -> Any:
    """[B T D] -> [B H T E]."""
    return z.reshape(*z.shape[:-1], heads, -1).swapaxes(-2, -3)


def merge(z: Any) -> Any:
    """[B H T E] -> [B T D]."""
    z = z.swapaxes(-2, -3)
    return z.reshape(*z.shape[:-2], -1)


def grouped(c: Any, z: Any) -> Any:
    """Each key/value head repeated for its group of query heads."""
    return np.repeat(z, c.heads // c.groups, axis=1)


def out_of(c: Any, z: Any) -> Any:
    return z if c.wo is None else z @ c.wo


HEADS: Change = {
    "sources": lambda c: (c.x, c.y_k, c.y_v),
    "projected": lambda c: (c.sources[0] @ c.wq, c.sources[1] @ c.wk, c.sources[2] @ c.wv),
    "q": lambda c: split(c.projected[0], c.heads),
    "k": lambda c: grouped(c, split(c.projected[1], c.groups)),
    "v": lambda c: grouped(c, split(c.projected[2], c.groups)),
    **CORE,
    "merged": lambda c: merge(c.result),
    "answer": lambda c: out_of(c, c.merged),
}
