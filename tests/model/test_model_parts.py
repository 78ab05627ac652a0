"""Tables of another width, layers that share their weights, and where a norm stands."""

from dataclasses import replace

import pytest
import torch

from clearhead.config import Attention, Dense, FeedForward, Head, Layer, Norm, Positions, Stack, TransformerConfig
from clearhead.model.describe import describe
from clearhead.model.layer import Residual
from clearhead.model.norm import Norm as NormModule
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, sites
from model.tiny import VOCAB, build, text

LAYER = Layer(self_attention=Attention(heads=2), feed_forward=FeedForward(dim=7))
OTHER = replace(LAYER, norm_place="output")
LEARNED = Positions(kind="learned", count=20)
STACK = Stack(layers=(LAYER, OTHER, LAYER, OTHER), vocab=VOCAB, positions=LEARNED, norm_in=True)
ONE = TransformerConfig(dim=6, encoder=replace(STACK, shared=(0, 1, 0, 1)), head=None)


def test_shared_layers_are_the_same_weights_twice() -> None:
    shared, apart = build(ONE), build(replace(ONE, encoder=STACK))
    names = {name for name, _ in shared.named_parameters()}
    assert not any(name.startswith(("encoder.layers.2", "encoder.layers.3")) for name in names)
    weights = dict(shared.state_dict())
    for name in list(weights):
        for first, second in (("layers.0.", "layers.2."), ("layers.1.", "layers.3.")):
            if first in name:
                weights[name.replace(first, second)] = weights[name]
    apart.load_state_dict(weights)
    assert torch.equal(shared(text(2, 9)).hidden, apart(text(2, 9)).hidden)
    assert "encoder.3.self.weights" in sites(ONE)
    assert describe(shared).count("1 x layer") == 4


def test_each_use_of_shared_weights_adds_to_one_gradient() -> None:
    model = build(ONE)
    model(text(2, 9)).hidden.square().sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    assert all(grad is not None and grad.abs().max() > 0 for name, grad in grads.items() if not name.endswith("k.bias"))


@pytest.mark.parametrize(
    ("shared", "problem"),
    [((0, 1, 0), "3 numbers"), ((0, 2, 0, 2), "counted from 0"), ((1, 0, 1, 0), "counted"), ((0, 0, 0, 0), "unlike")],
)
def test_bad_shares_are_refused(shared: tuple[int, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=rf"encoder\.shared.*{problem}"):
        replace(ONE, encoder=replace(STACK, shared=shared))


def test_narrow_tables_are_widened_and_the_head_narrows_again() -> None:
    config = TransformerConfig(
        dim=6, encoder=replace(STACK, embedding_dim=3), head=Head(bias=True, dense=Dense(width=3, activation="gelu"))
    )
    model = Transformer(config)
    shapes = {name: list(p.shape) for name, p in model.named_parameters()}
    assert shapes["encoder.embedding.weight"] == [VOCAB, 3]
    assert shapes["encoder.positions.table.weight"] == [20, 3]
    assert shapes["encoder.norm_in.gain"] == [3]
    assert shapes["encoder.widen.weight"] == [6, 3]
    assert shapes["head.dense.linear.weight"] == [3, 6]
    assert model(text(2, 9)).logits.shape == (2, 9, VOCAB)


def test_a_tied_head_cannot_read_a_narrow_table_directly() -> None:
    with pytest.raises(
        ValueError, match=r"head\.tied needs .* 3 \(embedding_dim\), but they are 6; set head\.dense\.width to 3"
    ):
        TransformerConfig(dim=6, encoder=replace(STACK, embedding_dim=3))


@pytest.mark.parametrize("field", ["parallel", "bare"])
def test_what_needs_the_norm_before(field: str) -> None:
    with pytest.raises(ValueError, match=rf"layers\[0\]\.{field} needs norm_place 'pre', not 'output'"):
        TransformerConfig(dim=6, encoder=replace(STACK, layers=(replace(OTHER, **{field: True}),)))


def test_norm_places_are_the_formulas_they_say() -> None:
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(1))
    norm = NormModule(Norm(), 6)
    expected = {
        "pre": x + 2 * norm(x),
        "post": norm(x + 2 * x),
        "output": x + norm(2 * x),
        "sandwich": x + norm(2 * norm(x)),
        "none": x + 2 * x,
    }
    for place, truth in expected.items():
        torch.testing.assert_close(Residual(place, lambda: norm, 0.0)(x, lambda h: 2 * h, SILENT), truth)


def test_audio_goes_into_an_encoder_without_tokens() -> None:
    with pytest.raises(ValueError, match=r"encoder\.vocab is 0; it must be at least 1"):
        TransformerConfig(dim=6, encoder=replace(STACK, vocab=0), head=None)
