"""Mistakes with the projections W_q, W_k, W_v and W_o."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np

from clearhead.checker.bank.heads import TASKS
from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import soft
from clearhead.checker.tasks.heads import out_of


def projections(order: Any, source: Any = (0, 1, 2)) -> Any:
    def stage(c: Any) -> Any:
        weights = (c.wq, c.wk, c.wv)
        return tuple(c.sources[s] @ weights[o] for s, o in zip(source, order, strict=True))

    return {"projected": stage}


def transposed(*which: Any) -> Any:
    def stage(c: Any) -> Any:
        weights = [c.wq, c.wk, c.wv]
        return tuple(c.sources[i] @ (w.T if "qkv"[i] in which else w) for i, w in enumerate(weights))

    change = {"projected": stage}
    return {**change, "answer": lambda c: c.merged @ c.wo.T} if "o" in which else change


def acted(act: Any) -> Any:
    return {"projected": lambda c: tuple(act(s @ w) for s, w in zip(c.sources, (c.wq, c.wk, c.wv), strict=True))}


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def chained(which: Any) -> Any:
    """query = Wq[i](query) in the loop over heads: each head projects what the one before it made."""

    def stage(c: Any) -> Any:
        made = []
        for i, (z, w, n) in enumerate(zip(c.sources, (c.wq, c.wk, c.wv), (c.heads, c.groups, c.groups), strict=True)):
            if i not in which:
                made.append(z @ w)
                continue
            parts = []
            for part in np.split(w, n, axis=1):
                z = z @ part
                parts.append(z)
            made.append(np.concatenate(parts, -1))
        return tuple(made)

    return {"projected": stage}


def powers(c: Any, which: Any) -> Any:
    """query = query @ Wq in the loop: head i projects i + 1 times."""
    made = []
    for i, (z, w) in enumerate(zip(c.sources, (c.wq, c.wk, c.wv), strict=True)):
        parts = []
        for part in range(c.heads if i in which else 1):
            z = z @ w
            parts.append(np.split(z, c.heads, axis=-1)[part] if i in which else z)
        made.append(np.concatenate(parts, -1))
    return tuple(made)


def carried(c: Any, out: bool) -> Any:
    """x = head(x) in the loop: each head reads what the one before it made (through W_o or not)."""
    if c.wo is None or c.groups != c.heads:
        raise ValueError("no output projection, or groups")
    x, total = c.x, 0.0
    for wq, wk, wv, wo in zip(
        *(np.split(w, c.heads, 1) for w in (c.wq, c.wk, c.wv)), np.split(c.wo, c.heads, 0), strict=True
    ):
        scores = (x @ wq) @ (x @ wk).swapaxes(-1, -2) / np.sqrt(wq.shape[1])
        keep = None if c.keep is None else np.broadcast_to(c.keep, c.scaled.shape)[:, 0]
        head = soft(c, scores if keep is None else np.where(keep, scores, -np.inf)) @ (x @ wv)
        total = total + head @ wo
        x = head @ wo if out else head
    return total


def first_head_only(c: Any) -> Any:
    """Scores of the first head; the later heads slice what is already sliced, which leaves nothing."""
    scores = np.zeros((*c.roles[0].shape[:-1], c.roles[1].shape[-2]))
    scores[:, 0] = c.roles[0][:, 0] @ c.roles[1][:, 0].swapaxes(-1, -2)
    return scores


def interleaved(c: Any, triples: Any = False) -> Any:
    """A fused layout in which each head has its q, k and v side by side (or each feature has)."""
    w = np.concatenate([c.wq, c.wk, c.wv], axis=1)
    if triples:
        parts = w.reshape(w.shape[0], -1, 3)
        return tuple(c.sources[i] @ parts[..., i] for i in range(3))
    parts = w.reshape(w.shape[0], c.heads, 3, -1)
    return tuple(c.sources[i] @ parts[:, :, i].reshape(w.shape[0], -1) for i in range(3))


def shared(c: Any, which: Any) -> Any:
    """The first block of each projection for every head's slice of the input."""
    size = c.wq.shape[1] // c.heads
    made = []
    for i, (z, w) in enumerate(zip(c.sources, (c.wq, c.wk, c.wv), strict=True)):
        part = z.reshape(*z.shape[:-1], c.heads, size) @ w[:size, :size]
        made.append(part.reshape(z.shape) if i in which else z @ w)
    return tuple(made)


MISTAKES = (
    Mistake(
        "value-is-key",
        "The weights are multiplied with K; the values are never used.",
        "Multiply with V.",
        ({"values": lambda c: c.roles[1]},),
        tasks=TASKS,
        hint=r"(?<!q )@ k\w*\b(?!\.(T|mT|trans|swap|perm))|matmul\((?!q)\w+, k\w*\)|"
        r"bmm\((?!q)\w+, k\w*\)|einsum\('[^']*', (?!q)\w+, k\w*\)",
    ),
    Mistake(
        "value-is-query",
        "The weights are multiplied with Q; the values are never used.",
        "Multiply with V.",
        ({"values": lambda c: c.roles[0]},),
        tasks=TASKS,
        hint=r"(?<!k )@ q\w*\b(?!\.(T|mT|trans|swap|perm))|matmul\((?!k)\w+, q\w*\)|"
        r"bmm\((?!k)\w+, q\w*\)|einsum\('[^']*', (?!k)\w+, q\w*\)",
    ),
    Mistake(
        "qk-swapped",
        "Keys ask and queries answer: the scores are K Q^T, the transpose of what they should be.",
        "Queries left, keys right.",
        ({"roles": lambda c: (c.k, c.q, c.v)},),
        tasks=TASKS,
        hint=r"\bk\w* @ q|matmul\(k\w*, q|bmm\(k\w*, q|einsum\([^,]*,[^,]*, k\w*, q",
    ),
    Mistake(
        "out-proj-missing",
        "The concatenated heads are returned without the output projection W_o, which mixes them.",
        "return concat @ W_o.",
        ({"answer": lambda c: c.merged},),
        tasks=TASKS,
    ),
    Mistake(
        "qkv-order",
        "The fused projection is unpacked in another order than it was packed (query, key, value).",
        "q, k, v = W_qkv(x).chunk(3, dim=-1), in this order.",
        (
            *(projections(order) for order in permutations(range(3)) if order != (0, 1, 2)),
            {"projected": lambda c: interleaved(c)},
            {"projected": lambda c: interleaved(c, True)},
        ),
        tasks=TASKS,
        hint=r"qkv|chunk\(|c_attn|split\(|unbind|in_proj|kv_proj|Wkv|to_kv",
    ),
    Mistake(
        "wrong-projection",
        "A projection is used for the wrong part (W_k for the values, one layer for all ...).",
        "q = x W_q, k = x W_k, v = x W_v.",
        (
            *(projections(order) for order in product(range(3), repeat=3) if order != (0, 1, 2)),
            {"answer": lambda c: c.merged @ c.wv},
            {"answer": lambda c: c.merged @ c.wq},
            {"answer": lambda c: c.merged @ c.wk},
        ),
        tasks=TASKS,
    ),
    Mistake(
        "head-projection-shared",
        "One small (E, E) layer serves all heads: far fewer parameters, and every head projects alike.",
        "Give each head its own weights: W of shape (d_model, d_model), split after the projection.",
        (
            {"projected": lambda c: shared(c, (0, 1, 2))},
            {"projected": lambda c: shared(c, (1, 2))},
        ),
        tasks=TASKS,
    ),
    Mistake(
        "weight-transposed",
        "The weight matrix is used the other way round. While it is square nothing complains.",
        "nn.Linear computes x @ W.T; a matrix of shape (in, out) is used as x @ W.",
        tuple(transposed(*which) for which in ("qkvo", "qkv", "o", "q", "k", "v", "qk", "kv", "qv")),
        tasks=TASKS,
    ),
    Mistake(
        "loop-shadowing",
        "Inside the loop over heads the input is overwritten, so later heads project what an earlier head made.",
        "Use another name inside the loop: q = Wq[i](query).",
        (
            *(chained(which) for which in ((0, 1, 2), (0,), (1,), (2,), (1, 2), (0, 1), (0, 2))),
            {"scores": first_head_only},
            *(
                {"projected": lambda c, which=which: powers(c, which)}
                for which in ((0, 1, 2), (0,), (1, 2), (1,), (2,))
            ),
            *({"answer": lambda c, out=out: carried(c, out)} for out in (True, False)),
        ),
        tasks=TASKS,
    ),
    Mistake(
        "projection-activation",
        "A nonlinearity (ReLU) follows the projections of q, k, v. They are plain linear maps.",
        "q = x W_q, nothing else.",
        (acted(lambda x: np.maximum(x, 0)), acted(np.tanh), acted(gelu)),
        tasks=TASKS,
    ),
    Mistake(
        "residual-inside",
        "The input is added to the result. The residual belongs outside of attention.",
        "Return the projected heads alone.",
        ({"answer": lambda c: out_of(c, c.merged) + c.x},),
        tasks=TASKS,
    ),
)
