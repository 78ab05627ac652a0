"""Mistakes in the softmax: the wrong axis, the wrong normaliser, the wrong numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import soft, swap

RULE = "weights = softmax(scores, axis=-1): each query's weights over the keys sum to 1."


def along(axis: Any) -> Any:
    """The change that normalises along `axis(c)`; an axis that the scores lack raises."""

    def weights(c: Any) -> Any:
        chosen = axis(c)
        if chosen is None:
            raise ValueError("no such axis")
        return soft(c, c.masked, chosen)

    return {"weights": weights}


def of(weights: Any) -> Any:
    """The change whose weights are `weights(c, scores)`."""
    return {"weights": lambda c: weights(c, c.masked)}


def implicit(c: Any) -> Any:
    """The axis that torch chooses when none is given: 0 for ranks 0, 1 and 3, else 1."""
    return 0 if c.masked.ndim in (0, 1, 3) else 1


def raised(x: Any) -> Any:
    return np.exp(x - x.max(-1, keepdims=True))


def unscaled_sum(x: Any) -> Any:
    e = raised(x)
    return e / e.sum(-1)


def half_step(c: Any, x: Any, block: Any) -> Any:
    """Online softmax over blocks of keys that adds up the sums without rescaling the earlier ones."""
    top, out, total = np.full((*x.shape[:-1], 1), -np.inf), 0.0, 0.0
    values = c.values
    for start in range(0, x.shape[-1], block):
        part = x[..., start : start + block]
        top = np.maximum(top, part.max(-1, keepdims=True))
        e = np.exp(part - top)
        total, out = total + e.sum(-1, keepdims=True), out + e @ values[..., start : start + block, :]
    return out / total


def one_block(c: Any, block: Any) -> Any:
    """Only the keys of whole blocks."""
    kept = c.masked.shape[-1] // block * block
    if kept == 0:
        return np.full((*c.masked.shape[:-1], c.values.shape[-1]), 0.0 if c.style == "zero" else np.nan)
    return soft(c, c.masked[..., :kept]) @ c.values[..., :kept, :]


MISTAKES = (
    Mistake(
        "softmax-dim-query",
        "The softmax runs over the queries, so the columns of the weights sum to 1 and the rows do not.",
        f"Normalise along the keys, the last axis. {RULE}",
        (along(lambda c: -2),),
    ),
    Mistake(
        "softmax-implicit-dim",
        "The softmax is called without an axis. Torch then takes axis 0 for three axes and axis 1 for four.",
        f"Say dim=-1. {RULE}",
        (along(implicit),),
        hint=r"(?<!self\.)(?<!\w)softmax\((?!(?:dim|axis) *=|-?\d)"
        r"(?:[^,()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)|Softmax\(\)",
    ),
    Mistake(
        "softmax-dim-batch",
        "The softmax runs over the samples of the batch, so a sample's weights depend on the other samples.",
        f"Normalise along the keys, the last axis. {RULE}",
        (along(lambda c: 0 if c.masked.ndim > 2 else None),),
    ),
    Mistake(
        "softmax-dim-heads",
        "The softmax runs over the heads: the heads share out each weight instead of the keys.",
        f"Normalise along the keys, the last axis. {RULE}",
        (along(lambda c: 1 if c.masked.ndim == 4 else None),),
    ),
    Mistake(
        "softmax-global",
        "One softmax over queries and keys together: all weights of a head sum to 1, not each row.",
        f"Normalise each row by itself. {RULE}",
        (
            along(lambda c: (-2, -1)),
            along(lambda c: (0, 1, 2) if c.masked.ndim == 3 else None),
            along(lambda c: (0, 1, 2, 3) if c.masked.ndim == 4 else None),
            along(lambda c: (1, 2, 3) if c.masked.ndim == 4 else None),
        ),
    ),
    Mistake(
        "softmax-heads-and-keys",
        "Heads and keys were put on one axis before the softmax, so all heads of a query share a sum of 1.",
        f"Keep the heads on their own axis. {RULE}",
        (along(lambda c: (1, 3) if c.masked.ndim == 4 else None),),
    ),
    Mistake(
        "softmax-missing",
        "The scores are used as weights without a softmax: they may be negative and sum to anything.",
        f"Apply it before the product with V. {RULE}",
        (of(lambda c, x: x),),
    ),
    Mistake(
        "softmax-linear-norm",
        "The scores are divided by their sum, without exp. Weights may be negative or huge.",
        f"Exponentiate first: exp(s) / sum exp(s). {RULE}",
        (
            of(lambda c, x: x / x.sum(-1, keepdims=True)),
            of(lambda c, x: x / np.abs(x).sum(-1, keepdims=True)),
            of(lambda c, x: (x - x.min(-1, keepdims=True)) / (x - x.min(-1, keepdims=True)).sum(-1, keepdims=True)),
        ),
    ),
    Mistake(
        "softmax-unnormalised",
        "exp(scores) is used without dividing by its sum, so a row sums to anything.",
        f"Divide by the row's sum. {RULE}",
        (of(lambda c, x: np.exp(x)), of(lambda c, x: raised(x))),
    ),
    Mistake(
        "softmax-twice",
        "The softmax is applied twice. The second makes the weights nearly equal and gives hidden keys weight again.",
        f"Apply it once. {RULE}",
        (of(lambda c, x: soft(c, soft(c, x))),),
    ),
    Mistake(
        "softmax-sigmoid",
        "Each score goes through a sigmoid by itself; the keys do not compete and a row does not sum to 1.",
        f"Use a softmax over the keys. {RULE}",
        (of(lambda c, x: 1 / (1 + np.exp(-x))),),
    ),
    Mistake(
        "softmax-log",
        "log_softmax gives logarithms, all negative, not weights.",
        f"Use softmax, or exponentiate the result. {RULE}",
        (of(lambda c, x: x - x.max(-1, keepdims=True) - np.log(raised(x).sum(-1, keepdims=True))),),
    ),
    Mistake(
        "softmax-overflow",
        "exp is taken without subtracting the row's maximum. From scores of 89 (float32) or "
        "710 (float64) on it is NaN.",
        "Subtract the maximum of each row first: exp(s - max(s)); the result is the same.",
        (of(lambda c, x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),),
    ),
    Mistake(
        "softmax-max-per-column",
        "The maximum subtracted before exp is taken over the wrong axis. Each key then gets its own factor.",
        "Subtract one number per row: s - s.max(axis=-1, keepdims=True).",
        (
            of(
                lambda c, x: (
                    np.exp(x - x.max(-2, keepdims=True)) / np.exp(x - x.max(-2, keepdims=True)).sum(-1, keepdims=True)
                )
            ),
            of(lambda c, x: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(-1)[..., None, :]))),
            of(lambda c, x: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(0)))),
        ),
    ),
    Mistake(
        "softmax-keepdims",
        "The row sums lost their axis (keepdims=True is missing), so columns are divided by the sums of rows.",
        "Keep the axis: exp(s) / exp(s).sum(axis=-1, keepdims=True).",
        (
            of(lambda c, x: raised(x) / raised(x).sum(-1)),
            of(lambda c, x: np.exp(x) / np.exp(x).sum(-1)),
            of(lambda c, x: (lambda e: e / e.sum(-1))(np.exp(x - x.max(-1)))),
            of(lambda c, x: raised(x) / raised(x).sum(-1)[..., None, :]),
        ),
    ),
    Mistake(
        "softmax-global-max",
        "One maximum for the whole array is subtracted. A row far below it becomes 0/0.",
        "Subtract each row's own maximum: s.max(axis=-1, keepdims=True).",
        (
            of(lambda c, x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(-1, keepdims=True)),
            of(lambda c, x: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max((-2, -1), keepdims=True)))),
        ),
    ),
    Mistake(
        "softmax-plus-one",
        "The denominator is 1 + sum, so the weights of a row sum to less than 1.",
        f"Divide by the sum alone. {RULE}",
        (
            of(lambda c, x: np.exp(x) / (1 + np.exp(x).sum(-1, keepdims=True))),
            of(lambda c, x: raised(x) / (1 + raised(x).sum(-1, keepdims=True))),
            of(lambda c, x: raised(x) / (np.exp(-x.max(-1, keepdims=True)) + raised(x).sum(-1, keepdims=True))),
        ),
    ),
    Mistake(
        "weights-rounded",
        "The weights were rounded (perhaps for printing) and then used, which costs digits of the output.",
        "Round only what you print.",
        tuple(
            {"used": lambda c, n=n: np.round(c.weights, n), "shown": lambda c, n=n: np.round(c.weights, n)}
            for n in (1, 2, 3, 4)
        ),
    ),
    Mistake(
        "online-softmax-no-rescale",
        "The block-wise softmax does not rescale what it has summed when a later block brings a larger maximum.",
        "When the maximum grows from m to m', multiply the sum and the output so far by exp(m - m').",
        tuple({"out": lambda c, n=n: half_step(c, c.masked, n)} for n in (1, 2, 3, 4, 8, 16, 32, 64, 128)),
    ),
    Mistake(
        "chunk-drops-tail",
        "The last, incomplete block of keys is never visited.",
        "Loop to the end: range(0, T_k, block), not T_k // block whole blocks.",
        tuple({"out": lambda c, n=n: one_block(c, n)} for n in (2, 3, 4, 5, 8, 16, 32, 64, 128)),
    ),
    Mistake(
        "weights-are-scores",
        "The output is right, but what is returned as weights are the scores: their rows do not sum to 1.",
        "Return what comes out of the softmax.",
        ({"shown": lambda c: c.masked}, {"shown": lambda c: c.scaled}, {"shown": lambda c: c.scores}),
    ),
    Mistake(
        "half-inside",
        "The computation runs in half precision inside: errors of 1e-3, and infinities for large scores.",
        "Compute in the precision of the inputs, at least float32 for scores and softmax.",
        (
            {"weights": lambda c: soft(c, c.masked.astype(np.float16)).astype(np.float64)},
            {
                "scores": lambda c: (c.roles[0].astype(np.float16) @ swap(c.roles[1]).astype(np.float16)).astype(
                    np.float64
                )
            },
        ),
        hint=r"float16|half\(|bfloat16|\.half",
    ),
)
