"""Mistakes to make on purpose in the learner's page: ids of the checker's catalogue, and the line that makes them.

The words come from the catalogue. A line stands in for the statement `function.name` of the code beside the numbers;
it is what a learner would have written, and it gives the numbers of one of the catalogue's ways.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from clearhead.checker import bank


class Broken(NamedTuple):
    """One mistake. `step` is where it shows first."""

    id: str
    step: str
    lines: dict[str, str]


def _scores(code: str) -> dict[str, str]:
    return {"attention.scores": f"    scores = {code}"}


def _scaled(code: str) -> dict[str, str]:
    return {"attention.scaled": f"    scaled = {code}"}


def _hidden(code: str) -> dict[str, str]:
    return {"attention.mask": f"    if mask is not None:\n        scaled = {code}"}


def _seen(code: str) -> dict[str, str]:
    return {"causal_mask.return": f"    return {code}"}


def _weights(code: str) -> dict[str, str]:
    return {"attention.weights": f"    weights = {code}"}


def _output(code: str) -> dict[str, str]:
    return {"attention.return": f"    return Attended(scores, scaled, weights, {code})"}


def _projected(q: str, k: str, v: str) -> dict[str, str]:
    return {"example.return": f"    return Example(X, Wq, Wk, Wv, {q}, {k}, {v})"}


def _split(code: str) -> dict[str, str]:
    return {"multi_head_attention.split": f"    def split(z: Array) -> Array:\n        return {code}"}


def _joined(code: str) -> dict[str, str]:
    return {"multi_head_attention.joined": f"    joined = {code}"}


def _attends(q: str, k: str, v: str, mask: str = "mask") -> dict[str, str]:
    line = f"    out = attention(split({q} @ wq), split({k} @ wk), split({v} @ wv), {mask}).output"
    return {"multi_head_attention.out": line}


EXP = "np.exp(scaled)"
ROW = "-1, keepdims=True"
OWN, OTHERS = "np.arange(keys - queries, keys)[:, None]", "np.arange(keys)[None, :]"

ATTENTION = (
    Broken("wrong-projection", "Q", _projected("X @ Wq", "X @ Wk", "X @ Wk")),
    Broken("qkv-order", "Q", _projected("X @ Wq", "X @ Wv", "X @ Wk")),
    Broken("weight-transposed", "Q", _projected("X @ Wq.T", "X @ Wk.T", "X @ Wv.T")),
    Broken("projection-activation", "Q", _projected(*(f"np.maximum(X @ W{i}, 0)" for i in "qkv"))),
    Broken("keys-not-transposed", "scores", _scores("q @ k")),
    Broken("keys-reshaped", "scores", _scores("q @ k.reshape(k.shape[-1], k.shape[-2])")),
    Broken("qk-swapped", "scores", _scores("k @ q.swapaxes(-1, -2)")),
    Broken(
        "elementwise-product", "scores", _scores(f"np.broadcast_to((q * k).sum({ROW}), (q.shape[-2], k.shape[-2]))")
    ),
    Broken(
        "cosine-scores",
        "scores",
        {
            "attention.scores": f"    q = q / np.maximum(np.linalg.norm(q, axis={ROW}), 1e-12)\n"
            f"    k = k / np.maximum(np.linalg.norm(k, axis={ROW}), 1e-12)\n"
            "    scores = q @ k.swapaxes(-1, -2)"
        },
    ),
    Broken("scale-missing", "scaled", _scaled("scores")),
    Broken("scale-dk-not-sqrt", "scaled", _scaled("scores / q.shape[-1]")),
    Broken("scale-inverted", "scaled", _scaled("scores * np.sqrt(q.shape[-1])")),
    Broken("scale-seq-len", "scaled", _scaled("scores / np.sqrt(k.shape[-2])")),
    Broken("scale-hardcoded", "scaled", _scaled("scores / 8.0")),
    Broken("scale-fourth-root-once", "scaled", _scaled("scores / q.shape[-1] ** 0.25")),
    Broken("scale-int-sqrt", "scaled", _scaled("scores / int(np.sqrt(q.shape[-1]))")),
    Broken("floor-division", "scaled", _scaled("scores // np.sqrt(q.shape[-1])")),
    Broken("scale-after-softmax", "scaled", _scaled("scores") | _weights("softmax(scaled) / np.sqrt(q.shape[-1])")),
    Broken("mask-not-assigned", "masked", _hidden("scaled; np.where(mask, scaled, -np.inf)")),
    Broken("mask-zero-before-softmax", "masked", _hidden("np.where(mask, scaled, 0.0)")),
    Broken("mask-too-small", "masked", _hidden("np.where(mask, scaled, -5.0)")),
    Broken("mask-inverted", "masked", _hidden("np.where(~mask, scaled, -np.inf)")),
    Broken("mask-added-raw", "masked", _hidden("scaled + mask")),
    Broken("mask-sign", "masked", _hidden("np.where(mask, scaled, 1e9)")),
    Broken("mask-nan-zero-times-inf", "masked", _hidden("scaled + ~mask * -np.inf")),
    Broken("causal-reversed", "masked", _seen(f"{OTHERS} >= {OWN}")),
    Broken("causal-diagonal-excluded", "masked", _seen(f"{OTHERS} < {OWN}")),
    Broken("causal-one-ahead", "masked", _seen(f"{OTHERS} <= {OWN} + 1")),
    Broken(
        "mask-after-softmax",
        "masked",
        {
            "attention.mask": "",
            "attention.weights": "    weights = softmax(scaled)\n    if mask is not None:\n"
            "        weights = np.where(mask, weights, 0.0)",
        },
    ),
    Broken("softmax-dim-query", "weights", _weights("softmax(scaled.swapaxes(-1, -2)).swapaxes(-1, -2)")),
    Broken("softmax-global", "weights", _weights("softmax(scaled.reshape(1, -1)).reshape(scaled.shape)")),
    Broken("softmax-missing", "weights", _weights("scaled")),
    Broken("softmax-linear-norm", "weights", _weights(f"scaled / scaled.sum({ROW})")),
    Broken("softmax-unnormalised", "weights", _weights(EXP)),
    Broken("softmax-twice", "weights", _weights("softmax(softmax(scaled))")),
    Broken("softmax-sigmoid", "weights", _weights("1 / (1 + np.exp(-scaled))")),
    Broken("softmax-log", "weights", _weights("np.log(softmax(scaled))")),
    Broken("softmax-keepdims", "weights", _weights(f"{EXP} / {EXP}.sum(-1)")),
    Broken("softmax-plus-one", "weights", _weights(f"{EXP} / (1 + {EXP}.sum({ROW}))")),
    Broken("softmax-base-two", "weights", _weights(f"2**scaled / (2**scaled).sum({ROW})")),
    Broken(
        "softmax-max-per-column",
        "weights",
        {
            "attention.weights": "    raised = np.exp(scaled - scaled.max(-2, keepdims=True))\n"
            f"    weights = raised / raised.sum({ROW})"
        },
    ),
    Broken("softmax-overflow", "weights", _weights(f"{EXP} / {EXP}.sum({ROW})")),
    Broken("weights-rounded", "weights", _weights("softmax(scaled).round(1)")),
    Broken("value-is-key", "output", _output("weights @ k")),
    Broken("value-is-query", "output", _output("weights @ q")),
    Broken("weights-transposed", "output", _output("weights.swapaxes(-1, -2) @ v")),
    Broken("average-not-sum", "output", _output("weights @ v / k.shape[-2]")),
    Broken("residual-inside", "output", _output("weights @ v + q")),
)

HEADS = (
    Broken("heads-split-no-transpose", "Q", _split("z.reshape(heads, -1, z.shape[-1] // heads)")),
    Broken("heads-dim-order", "Q", _split("np.moveaxis(z.reshape(*z.shape[:-1], -1, heads), -1, -3)")),
    Broken("scale-d-model", "scaled", _scaled("scores / np.sqrt(q.shape[-3] * q.shape[-1])")),
    Broken("softmax-dim-heads", "weights", _weights("np.moveaxis(softmax(np.moveaxis(scaled, -3, -1)), -1, -3)")),
    Broken(
        "heads-merge-no-transpose", "joined", {"multi_head_attention.return": "    return out.reshape(x.shape) @ wo"}
    ),
    Broken("heads-averaged", "joined", _joined("np.repeat(out.mean(-3, keepdims=True), heads, -3).swapaxes(-2, -3)")),
    Broken("last-head-only", "joined", _joined("np.repeat(out[..., -1:, :, :], heads, -3).swapaxes(-2, -3)")),
    Broken("head-index-unused", "joined", _joined("np.repeat(out[..., :1, :, :], heads, -3).swapaxes(-2, -3)")),
    Broken(
        "out-proj-missing",
        "answer",
        {"multi_head_attention.return": "    return joined.reshape(*joined.shape[:-2], -1)"},
    ),
)

CROSS = (
    Broken("cross-uses-self", "Q", _attends("x", "x", "x")),
    Broken("cross-roles-swapped", "Q", _attends("y", "x", "x")),
    Broken("cross-value-from-decoder", "Q", _attends("x", "y", "x")),
    Broken("cross-causal", "weights", _attends("x", "y", "y", "np.tri(len(x), len(y), dtype=bool)")),
    Broken("scale-missing", "scaled", _scaled("scores")),
    Broken("softmax-dim-query", "weights", _weights("softmax(scaled.swapaxes(-1, -2)).swapaxes(-1, -2)")),
    Broken("value-is-key", "output", _output("weights @ k")),
)

PAGES: dict[str, tuple[Broken, ...]] = {"attention": ATTENTION, "heads": HEADS, "cross": CROSS}


def told(broken: Broken) -> dict[str, Any]:
    """The mistake as the page shows it, with the catalogue's words."""
    known = bank.known()[broken.id]
    return {"id": broken.id, "step": broken.step, "says": known.says, "fix": known.fix, "lines": broken.lines}
