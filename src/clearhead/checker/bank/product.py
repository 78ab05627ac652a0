"""Mistakes in the two products, their axes and the roles of Q, K and V."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import swap

RULE = "output = softmax(Q K^T / sqrt(d_k)) V."
SIMPLE = ("sdpa", "multi_head_attention", "cross_attention")


def scores(make: Any) -> Any:
    return {"scores": lambda c: make(*c.roles[:2])}


def roles(make: Any) -> Any:
    return {"roles": lambda c: make(c.q, c.k, c.v)}


def lead(q: Any, k: Any) -> Any:
    """All leading axes summed away and put back: a head (or sample) sees the scores of all."""
    if q.ndim < 3:
        raise ValueError("nothing to sum over")
    axis = 1 if q.ndim == 4 else 0
    total = (q @ swap(k)).sum(axis, keepdims=True)
    return np.broadcast_to(total, q.shape[:-1] + k.shape[-2:-1])


def crossed(q: Any, k: Any) -> Any:
    """The heads of the key summed first: q of one head against the sum of all keys."""
    if q.ndim != 4:
        raise ValueError("no heads")
    return q @ swap(k.sum(1, keepdims=True))


def fixed(a: Any, b: Any) -> Any:
    """K with two fixed axes exchanged, as transpose(a, b) does."""
    return lambda q, k: q @ np.swapaxes(k, a, b)


def across(axis: Any) -> Any:
    """The change that attends along another axis than the tokens."""

    def move(c: Any) -> Any:
        if c.q.ndim <= axis + 1 or c.k.shape[axis] != c.q.shape[axis]:
            raise ValueError("no such axis")
        return tuple(np.swapaxes(x, axis, -2) for x in (c.q, c.k, c.v))

    def keep(c: Any) -> Any:  # a mask over tokens fits here only where the sizes happen to agree
        return None

    return {"roles": move, "keep": keep, "result": lambda c: np.swapaxes(c.out, axis, -2)}


def features(c: Any) -> Any:
    q, k, v = c.roles
    return v @ swap(np_softmax(swap(q) @ k / np.sqrt(q.shape[-1])))


def features_first(c: Any) -> Any:
    q, k, v = c.roles
    return v @ np_softmax(swap(q) @ k / np.sqrt(q.shape[-1]))


def np_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def unit(x: Any) -> Any:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def diagonal(c: Any) -> Any:
    """Position i compared with key i only."""
    q, k, _ = c.roles
    return np.broadcast_to((q * k).sum(-1, keepdims=True), (*q.shape[:-1], k.shape[-2]))


def fewer_keys(c: Any) -> Any:
    """Only as many keys as there are queries."""
    q, k, v = c.q, c.k, c.v
    if q.shape[-2] > k.shape[-2]:
        raise IndexError("no such key")
    return (q, k[..., : q.shape[-2], :], v[..., : q.shape[-2], :])


def own_key(q: Any, k: Any) -> Any:
    """Every key's score is that of the query's own position."""
    s = (q * k).sum(-1, keepdims=True)
    return np.broadcast_to(s, (*q.shape[:-1], k.shape[-2]))


MISTAKES = (
    Mistake(
        "keys-reshaped",
        "K was reshaped to (d, T) instead of transposed: the numbers of different tokens are mixed, with no error.",
        f"Exchange the axes: K.transpose(-2, -1). {RULE}",
        (scores(lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])),),
    ),
    Mistake(
        "keys-not-transposed",
        "Q is multiplied with K instead of K^T. It fails, or is silently wrong when the length equals d_k.",
        f"Exchange K's last two axes. {RULE}",
        (scores(lambda q, k: q @ k),),
    ),
    Mistake(
        "keys-wrong-transpose",
        "The transpose moves other axes than K's last two. One matrix may work; batches or heads do not.",
        f"Use K.transpose(-2, -1) or K.swapaxes(-1, -2). {RULE}",
        (
            scores(lambda q, k: q @ k.T),
            scores(fixed(1, 2)),
            scores(fixed(0, 1)),
            scores(fixed(0, -1)),
            scores(fixed(1, 3)),
        ),
    ),
    Mistake(
        "weights-transposed",
        "The weights are transposed before the product with V: a value is spread to where it should be collected.",
        f"weights @ V, rows = queries, columns = keys. {RULE}",
        ({"out": lambda c: swap(c.used) @ c.values},),
    ),
    Mistake(
        "qk-swapped",
        "Keys ask and queries answer: the scores are K Q^T, the transpose of what they should be.",
        f"Queries left, keys right. {RULE}",
        (
            roles(lambda q, k, v: (k, q, v)),
            {"scores": lambda c: c.roles[1] @ swap(c.roles[0])},
        ),
    ),
    Mistake(
        "einsum-sums-heads",
        "An index letter is missing in the result, so einsum sums over heads (or samples) and mixes them.",
        "Name every axis that must stay: 'bhqd,bhkd->bhqk'.",
        (scores(lead), scores(crossed), {"out": lambda c: summed_values(c)}),
    ),
    Mistake(
        "elementwise-product",
        "Q and K are multiplied number by number: each position is compared only with itself.",
        f"Use the matrix product @. {RULE}",
        (
            {"scores": diagonal},
            {"out": lambda c: elementwise(c)},
            {"out": lambda c: elementwise(c, 1.0)},
            {"out": lambda c: gated(c)},
        ),
    ),
    Mistake(
        "attend-over-batch",
        "The tokens of different samples attend to each other: the code takes (T, B, d), the data are (B, T, d).",
        "The last two axes must be (tokens, features); the batch comes first and is never mixed.",
        (across(0),),
    ),
    Mistake(
        "attend-over-heads",
        "The heads of one token attend to each other, not the tokens: transpose(1, 2) after the split is missing.",
        "Split to (B, T, H, d), then transpose(1, 2) to (B, H, T, d).",
        (across(1),),
    ),
    Mistake(
        "attend-over-features",
        "Q^T K compares features with features (d x d weights), not tokens with tokens.",
        f"The scores must be (T_q, T_k). {RULE}",
        ({"out": features}, {"out": features_first}),
    ),
    Mistake(
        "value-is-key",
        "The weights are multiplied with K; the values are never used.",
        f"Multiply with V. {RULE}",
        ({"values": lambda c: c.roles[1]},),
    ),
    Mistake(
        "value-is-query",
        "The weights are multiplied with Q; the values are never used.",
        f"Multiply with V. {RULE}",
        ({"values": lambda c: c.roles[0]},),
    ),
    Mistake(
        "average-not-sum",
        "The weighted values are averaged instead of summed: the output is too small by the number of keys.",
        f"The weights already sum to 1, so sum. {RULE}",
        ({"out": lambda c: c.used @ c.values / c.used.shape[-1]},),
    ),
    Mistake(
        "cosine-scores",
        "Queries and keys are normalised to length 1 first, so their lengths no longer count.",
        f"Use the plain dot product. {RULE}",
        (
            scores(lambda q, k: unit(q) @ swap(unit(k))),
            {"scores": lambda c: unit(c.roles[0]) @ swap(unit(c.roles[1])), "scaled": lambda c: c.scores},
            scores(lambda q, k: unit(q) @ swap(k)),
            scores(lambda q, k: q @ swap(unit(k))),
        ),
    ),
    Mistake(
        "residual-inside",
        "The query (or the input) is added to the result. The residual belongs outside of attention.",
        f"Return the weighted values alone. {RULE}",
        (
            {"result": lambda c: c.out + c.q},
            {"result": lambda c: c.out + c.v},
            {"result": lambda c: c.out + c.x},
            {"result": lambda c: c.out + c.k},
        ),
        tasks=SIMPLE,
    ),
    Mistake(
        "loop-index-typo",
        "The inner loop uses the outer index, so all keys of a row get the same score and the output is the mean of V.",
        "Compare query i with key j: Q[i] @ K[j].",
        (scores(lambda q, k: np.zeros((*q.shape[:-1], k.shape[-2]))), {"scores": diagonal}),
        hint=r"\bfor\b",
    ),
    Mistake(
        "loop-range-from-queries",
        "The loop over the keys runs over the number of queries, so further keys are ignored.",
        "Loop j over len(K).",
        ({"roles": fewer_keys},),
    ),
    Mistake(
        "output-like-query",
        "The result is written into an array shaped (and typed) like Q. It fails for another "
        "d_v and cuts whole numbers.",
        "Make it (T_q, d_v) of floats.",
        ({"result": lambda c: like_query(c)},),
        hint=r"(zeros|empty|ones|full)_like\(",
    ),
    Mistake(
        "dropout-in-eval",
        "Two equal calls differ: dropout is active outside of training.",
        "F.dropout(x, p, training=self.training), and pass dropout_p=0.0 in eval mode.",
    ),
    Mistake(
        "grad-detached",
        "The numbers are right, but the gradient is cut (.data, .detach(), torch.tensor(...), "
        "item()): it cannot learn.",
        "Stay within tensor operations from the inputs to the output.",
    ),
    Mistake(
        "dtype-downcast",
        "float64 comes in and float32 comes out: digits are lost inside.",
        "Keep the input's type: no .float(), no astype(np.float32).",
    ),
    Mistake(
        "view-noncontiguous",
        "view is called on a transposed tensor, whose memory is not in order: torch refuses.",
        "Use reshape, or .contiguous() before view.",
        tasks=SIMPLE,
    ),
)


def elementwise(c: Any, root: Any = None) -> Any:
    """Feature-wise gates: softmax over the features of q * k, times v."""
    q, k, v = c.roles
    return np_softmax(q * k / (root or np.sqrt(q.shape[-1]))) * v


def gated(c: Any) -> Any:
    """Each token's own score, softmax over the tokens, times its own value."""
    q, k, v = c.roles
    return np_softmax((q * k).sum(-1) / np.sqrt(q.shape[-1]))[..., None] * v


def summed_values(c: Any) -> Any:
    """The weights against the values summed over heads."""
    if c.values.ndim < 3:
        raise ValueError("nothing to sum over")
    axis = 1 if c.values.ndim == 4 else 0
    return np.broadcast_to((c.used @ c.values).sum(axis, keepdims=True), (*c.used.shape[:-1], c.values.shape[-1]))


def like_query(c: Any) -> Any:
    if c.out.shape[-1] != c.q.shape[-1]:
        raise ValueError("does not fit")
    return np.trunc(c.out) if c.whole else c.out
