"""A new model: layers differ, seeds repeat, variances are as stated."""

from dataclasses import replace

import pytest
import torch

from clearhead.config import (
    Attention,
    Dense,
    FeedForward,
    Head,
    Layer,
    Norm,
    Positions,
    RelativeBias,
    Stack,
    TransformerConfig,
)
from clearhead.model.transformer import Transformer
from model.tiny import ALL

DIM = 96


def wide(init_std: float | None = None, head: Head | None = None, scale: float = 2.0) -> TransformerConfig:
    """Wide enough for a variance to be told within a few per cent."""
    own, ahead = (Attention(heads=4, bias="qkvo", causal=c) for c in (False, True))
    ff = FeedForward(dim=160, gated=True)
    form = {"vocab": 300, "embedding_scale": scale, "norm_in": True}
    encoder = Stack(layers=(Layer(self_attention=own, feed_forward=ff),) * 2, token_types=80, **form)  # type: ignore
    layer = Layer(self_attention=ahead, cross_attention=own, feed_forward=ff)
    learned = Positions(kind="learned", count=100)
    bias = RelativeBias(buckets=200)
    decoder = Stack(layers=(layer,) * 2, positions=learned, relative_bias=bias, **form)  # type: ignore
    return TransformerConfig(dim=DIM, encoder=encoder, decoder=decoder, head=head or Head(), init_std=init_std)


def spread(model: Transformer) -> dict[str, float]:
    return {name: p.std().item() for name, p in model.named_parameters()}


@pytest.mark.parametrize("kind", ALL)
def test_num_10_layers_start_different_and_seeds_repeat(kind: str) -> None:
    models = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        models.append(Transformer(ALL[kind]()))
    same, again, other = (dict(m.named_parameters()) for m in models)
    assert all(torch.equal(p, again[name]) for name, p in same.items())
    assert any(not torch.equal(p, other[name]) for name, p in same.items())
    matrices = [p for name, p in same.items() if p.dim() == 2]
    for i, a in enumerate(matrices):
        assert all(a.shape != b.shape or not torch.equal(a, b) for b in matrices[:i])


def test_matrices_are_xavier_uniform() -> None:
    model = Transformer(wide())
    for name, p in model.named_parameters():
        if p.dim() == 2 and "layers" in name:
            limit = (6 / sum(p.shape)) ** 0.5
            assert p.abs().max() <= limit, name
            assert p.std().item() == pytest.approx(limit / 3**0.5, rel=0.05), name


def test_an_embedding_that_the_head_shares_starts_at_the_root_of_the_width() -> None:
    found = spread(Transformer(wide()))
    assert found["decoder.embedding.weight"] == pytest.approx(DIM**-0.5, rel=0.05)
    assert found["encoder.embedding.weight"] == pytest.approx(1 / 2.0, rel=0.05)
    shared = spread(Transformer(replace(wide(), shared_embeddings=True)))
    assert shared["encoder.embedding.weight"] == pytest.approx(DIM**-0.5, rel=0.05)


def test_an_embedding_of_its_own_gives_tokens_of_variance_1() -> None:
    for head in (Head(tied=False), None):
        config = replace(wide(head=head), head=head)
        model = Transformer(config)
        found = spread(model)
        for name in ("encoder", "decoder"):
            assert found[f"{name}.embedding.weight"] == pytest.approx(1 / 2.0, rel=0.05)
    untied = Transformer(wide(head=Head(tied=False)))
    assert untied.head.weight.std().item() == pytest.approx((2 / (300 + DIM)) ** 0.5, rel=0.05)


def test_tables_beside_the_embedding_have_variance_1() -> None:
    found = spread(Transformer(wide()))
    for name in ("decoder.positions.table.weight", "encoder.token_types.weight", "decoder.relative_bias.table.weight"):
        assert found[name] == pytest.approx(1.0, rel=0.08), name


def test_a_given_deviation_and_quieter_ends_of_branches() -> None:
    found = spread(Transformer(wide(init_std=0.02, head=Head(tied=False, dense=Dense(activation="relu", norm=True)))))
    for name, std in found.items():
        if name.endswith("weight"):
            ends = name.endswith((".o.weight", ".down.weight"))
            branches = 6 if name.startswith("decoder") else 4
            assert std == pytest.approx(0.02 / branches**0.5 if ends else 0.02, rel=0.08), name


@pytest.mark.parametrize("init_std", [None, 0.02])
@pytest.mark.parametrize("kind", ["layer", "rms", "rms_plus_one"])
def test_biases_start_at_0_and_gains_at_1(init_std: float | None, kind: str) -> None:
    model = Transformer(replace(wide(init_std=init_std, head=Head(bias=True)), norm=Norm(kind=kind)))  # type: ignore
    for name, p in model.named_parameters():
        if p.dim() == 1:
            value = 1.0 if name.endswith("gain") and kind != "rms_plus_one" else 0.0
            assert bool((p == value).all()), name


def test_logits_of_a_new_model_are_of_the_order_of_1() -> None:
    for kind in ("learned_decoder", "rotary_decoder", "post_norm_translator"):
        model = Transformer(ALL[kind]()).eval()
        ids = torch.arange(3, 12)[None]
        rest = (None, ids) if kind == "post_norm_translator" else ()
        assert 0.2 < model(ids, *rest).logits.std().item() < 3
