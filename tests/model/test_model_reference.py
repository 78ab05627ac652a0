"""The whole paper-like translator against a plain NumPy forward made of the lesson's formulas."""

from typing import Any

import numpy as np
import torch

from clearhead import reference
from clearhead.model.transformer import Transformer
from model.tiny import build, post_norm_translator, text

Array = np.ndarray[Any, Any]


class Plain:
    """Reads a model's parameters by name; computes with reference.py alone."""

    def __init__(self, model: Transformer):
        self.weights = {name: p.detach().numpy() for name, p in model.state_dict().items()}

    def linear(self, name: str, x: Array) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: Array) -> Array:
        return reference.layer_norm(x, self.weights[f"{name}.total.gain"], self.weights[f"{name}.total.shift"])

    def attention(self, name: str, x: Array, y: Array, mask: Array | None) -> Array:
        def heads(letter: str, z: Array) -> Array:
            out = self.linear(f"{name}.{letter}", z)
            return out.reshape(*out.shape[:2], 3, 4).swapaxes(1, 2)

        out = reference.attention(heads("q", x), heads("k", y), heads("v", y), mask).output
        return self.linear(f"{name}.o", out.swapaxes(1, 2).reshape(*x.shape))

    def embed(self, ids: Array) -> Array:
        table = self.weights["encoder.embedding.weight"]
        return table[ids] * np.sqrt(12) + reference.sinusoidal_positions(ids.shape[1], 12)

    def feed_forward(self, name: str, x: Array) -> Array:
        w = {part: self.weights[f"{name}.{part}.weight"].T for part in ("up", "down")}
        b = {part: self.weights[f"{name}.{part}.bias"] for part in ("up", "down")}
        return reference.feed_forward(x, w["up"], b["up"], w["down"], b["down"])

    def layer(
        self, name: str, x: Array, own: Array | None, memory: Array | None = None, other: Array | None = None
    ) -> Array:
        x = self.norm(f"{name}.self_residual", x + self.attention(f"{name}.self_attention", x, x, own))
        if memory is not None:
            x = self.norm(f"{name}.cross_residual", x + self.attention(f"{name}.cross_attention", x, memory, other))
        return self.norm(f"{name}.feed_forward_residual", x + self.feed_forward(f"{name}.feed_forward", x))


def test_the_translator_equals_plain_numpy() -> None:
    model = build(post_norm_translator())
    plain, source, target = Plain(model), text(2, 7), text(2, 5, seed=1)
    keep = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    padding = reference.padding_mask(np.array([7, 4]), 7)
    x = plain.embed(source.numpy())
    for i in range(2):
        x = plain.layer(f"encoder.layers.{i}", x, padding)
    y = plain.embed(target.numpy())
    for i in range(2):
        y = plain.layer(f"decoder.layers.{i}", y, reference.causal_mask(5, 5), x, padding)
    out = model(source, keep, target)
    there = keep.bool().numpy()
    np.testing.assert_allclose(out.encoder_hidden.detach()[there], x[there], atol=1e-10, rtol=0)
    np.testing.assert_allclose(out.hidden.detach(), y, atol=1e-10, rtol=0)
    np.testing.assert_allclose(out.logits.detach(), y @ plain.weights["encoder.embedding.weight"].T, atol=1e-10, rtol=0)
    np.testing.assert_allclose(model.encode(source, keep).detach()[there], x[there], atol=1e-10, rtol=0)


def test_float32_stays_within_1e5_of_it() -> None:
    source, target = text(2, 7), text(2, 5, seed=1)
    exact = build(post_norm_translator())(source, None, target).logits
    single = build(post_norm_translator(), torch.float32)(source, None, target).logits
    assert (single.double() - exact).abs().max() < 1e-5 * exact.abs().max()
