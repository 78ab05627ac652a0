"""Laws hold for our models, and break, with a cause, for models that break them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clearhead.checker.laws import Law, laws
from clearhead.families.presets import gpt2, small_encoder
from clearhead.model.transformer import Transformer


class Attention(nn.Module):
    """Single-head self-attention on vectors; `leak` mixes the samples of the batch."""

    def __init__(self, leak: bool = False):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.leak = leak

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = x.transpose(0, 1) if self.leak else x
        out = torch.softmax(self.q(z) @ self.k(z).mT / 8**0.5, -1) @ self.v(z)
        return out.transpose(0, 1) if self.leak else out


def found(model: nn.Module, name: str, causal: bool | None = None) -> Law:
    return next(law for law in laws(model, causal).laws if name in law.name)


@pytest.fixture
def decoder() -> Transformer:
    torch.manual_seed(0)
    return Transformer(gpt2(2, 16, 2)).double()


def test_our_decoder_keeps_the_laws(decoder: Transformer) -> None:
    report = laws(decoder)
    assert report.passed, repr(report)
    assert found(decoder, "future").holds is True
    assert found(decoder, "cached").holds is True


def test_our_encoder_keeps_the_laws() -> None:
    torch.manual_seed(0)
    model = Transformer(small_encoder(50, 128)).double()
    assert laws(model).passed, repr(laws(model))
    assert found(model, "padding").holds is True


def test_plain_attention_is_equivariant_and_not_causal() -> None:
    assert found(Attention(), "permuted").holds is True
    assert found(Attention(), "future").holds is None


def test_a_leak_from_the_future_is_found_when_it_must_not_be() -> None:
    law = found(Attention(), "future", causal=True)
    assert law.holds is False
    assert law.cause == "causal-missing"
    assert "2 tokens" in law.words


def test_samples_that_mix_are_found() -> None:
    law = found(Attention(leak=True), "neighbours")
    assert law.holds is False
    assert law.cause == "attend-over-batch"


def test_the_model_is_left_as_it_was() -> None:
    model = Attention().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    laws(model)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
