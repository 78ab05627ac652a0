"""The lesson's formulas in NumPy float64: the specification that everything else is tested against.

Written to be read, not to be fast. Shape letters: B batch, H heads, Q queries, K keys, E head width, D model width,
F feed-forward width. Leading dimensions (batch, heads) broadcast everywhere, so that the same lines serve one matrix
or a whole batch. A mask is boolean and True means "may attend".

Source: Vaswani et al. 2017, "Attention Is All You Need"; Ba et al. 2016, "Layer Normalization".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Attended(NamedTuple):
    """Every number that attention goes through, in order."""

    scores: Array  # [... Q K] Q K^T
    scaled: Array  # [... Q K] divided by sqrt(E); hidden keys at -inf
    weights: Array  # [... Q K] each row sums to 1, or to 0 if the query may see nothing
    output: Array  # [... Q E]


def softmax(x: Array) -> Array:
    """exp(x) / sum exp(x) along the last axis; the maximum is subtracted first, so that large scores stay finite."""
    top = x.max(axis=-1, keepdims=True)
    raised = np.exp(x - np.where(np.isneginf(top), 0.0, top))
    total = raised.sum(axis=-1, keepdims=True)
    return np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)  # nothing to attend to: zeros


def attention(q: Array, k: Array, v: Array, mask: Mask | None = None) -> Attended:
    """softmax(q k^T / sqrt(E)) v (section 3.2.1). q [... Q E], k [... K E], v [... K E], mask [... Q K]."""
    scores = q @ k.swapaxes(-1, -2)
    scaled = scores / np.sqrt(q.shape[-1])
    if mask is not None:
        scaled = np.where(mask, scaled, -np.inf)
    weights = softmax(scaled)
    return Attended(scores, scaled, weights, weights @ v)


def multi_head_attention(
    x: Array, y: Array, wq: Array, wk: Array, wv: Array, wo: Array, heads: int, mask: Mask | None = None
) -> Array:
    """Queries from x [... Q D], keys and values from y [... K D]; each head its own slice (section 3.2.2)."""

    def split(z: Array) -> Array:  # [... T D] -> [... H T E]
        return z.reshape(*z.shape[:-1], heads, -1).swapaxes(-2, -3)

    out = attention(split(x @ wq), split(y @ wk), split(y @ wv), mask).output  # [... H Q E]
    joined = out.swapaxes(-2, -3)
    return joined.reshape(*joined.shape[:-2], -1) @ wo


def sinusoidal_positions(count: int, dim: int) -> Array:
    """[count, dim]: sine on even, cosine on odd columns, rate 1 / 10000^(2 floor(i/2) / dim) (section 3.5)."""
    column = np.arange(dim)
    rate = 10000.0 ** -(2 * (column // 2) / dim)
    angle = np.arange(count)[:, None] * rate
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


def causal_mask(queries: int, keys: int) -> Mask:
    """[Q K]: the queries are the last ones; a query sees keys at positions up to its own."""
    return np.arange(keys)[None, :] <= np.arange(keys - queries, keys)[:, None]


def padding_mask(lengths: NDArray[np.int64], keys: int) -> Mask:
    """[B 1 1 K]: the first `length` keys of each sample."""
    return (np.arange(keys)[None, :] < np.asarray(lengths)[:, None])[:, None, None, :]


def layer_norm(x: Array, gain: Array, shift: Array, eps: float = 1e-5) -> Array:
    """Mean 0 and variance 1 along the last axis, then a learned gain and shift."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * gain + shift


def feed_forward(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    """max(0, x W1 + b1) W2 + b2 (section 3.3). x [... D], w1 [D F], w2 [F D]."""
    return np.maximum(x @ w1 + b1, 0.0) @ w2 + b2
