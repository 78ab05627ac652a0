"""Laws hold for our models, and break, with a cause, for models that break them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clearhead.checker.law import Law
from clearhead.checker.laws import laws, laws_of
from clearhead.config import AnswerSpan, TextClassifier
from clearhead.families.load import save
from clearhead.families.presets import gpt2, small_encoder, small_translator
from clearhead.formulas.attention import Scoring, attend
from clearhead.model.audio import Convolutions
from clearhead.model.cache import Store
from clearhead.model.transformer import Transformer
from model.test_model_audio import encoder_only, listener
from model.tiny import build, learned_encoder, post_norm_translator


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
    assert found(model, "padding on the right").holds is True
    assert found(model, "padding on the left").holds is True


def test_positions_that_count_the_padding() -> None:
    class Counting(nn.Module):
        """Adds the place in the row, padding or not."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
            return self.table(ids) + torch.arange(ids.shape[1])[:, None]

    assert found(Counting(), "padding on the right").holds is True
    law = found(Counting(), "padding on the left")
    assert (law.holds, law.cause) == (False, "positions-count-padding")


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


INSIDE = ("cached", "beam of one", "rows of weights", "times the values", "heads sum")


@pytest.mark.parametrize("name", INSIDE)
def test_our_decoder_keeps_the_laws_of_the_inside(decoder: Transformer, name: str) -> None:
    assert found(decoder, name).holds is True


@pytest.mark.parametrize("name", INSIDE)
def test_the_inside_of_other_models_is_not_judged(name: str) -> None:
    law = found(Attention(), name)
    assert law.holds is None
    assert "clearhead.Transformer only" in law.words


def test_an_encoder_beside_a_decoder_keeps_every_law() -> None:
    torch.manual_seed(0)
    report = laws(Transformer(small_translator(40, 30, 64)).double())
    untold = [law.name for law in report.laws if law.holds is not True]
    assert untold == ["permuted tokens give permuted outputs"], repr(report)


def undecided(model: nn.Module) -> set[str]:
    report = laws(model)
    assert report.passed, repr(report)
    return {law.name.split(" ")[0] for law in report.laws if law.holds is None}


def test_a_model_that_hears_keeps_every_law_about_its_text() -> None:
    assert undecided(build(listener())) == {"permuted", "hidden"}
    assert found(build(listener()), "hidden tokens").holds is True
    assert "sound has no mask" in found(build(listener()), "hidden source").words


def test_an_encoder_that_hears() -> None:
    """It knows neither masks nor tokens: a frame is as good as another."""
    model = build(encoder_only())
    assert undecided(model) == {"no", "hidden", "padding", "permuted", "cached", "beam"}
    assert found(model, "neighbours").holds is True
    assert "as in an encoder" in found(model, "future").words


def test_sounds_that_mix_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Convolutions.forward
    monkeypatch.setattr(Convolutions, "forward", lambda self, x: (y := plain(self, x)) + y.mean(0))
    law = found(build(listener()), "neighbours")
    assert (law.holds, law.cause) == (False, "attend-over-batch")


HEADS = {
    "labels": TextClassifier(labels=("a", "b"), pool="first"),
    "labels, eos": TextClassifier(labels=("a", "b"), pool="eos"),
    "answer": AnswerSpan(),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("make", [post_norm_translator, learned_encoder])
def test_a_model_that_speaks_of_its_text_keeps_the_laws(name: str, make: Any) -> None:
    """With one answer for a text, later tokens may count; a decoder that reads it again has no cache."""
    model = build(replace(make(), head=HEADS[name], eos=2))
    assert undecided(model) == {"no", "hidden", "permuted", "cached", "beam"}
    assert found(model, "hidden tokens").holds is True


def test_an_encoder_alone_has_no_cache() -> None:
    model = Transformer(small_encoder(50, 64))
    assert found(model, "cached").words == "not applicable: the model has no decoder"
    assert found(model, "heads sum").holds is True


def test_weights_that_do_not_sum_to_one(decoder: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scoring, "weights", lambda self, q, k, rows=slice(None): self.scores(q, k, rows).sigmoid())
    assert found(decoder, "rows of weights").holds is False


def test_heads_that_are_not_what_the_weights_say(decoder: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.model.attention.attend", lambda q, k, v, *more: attend(q, k, 2 * v, *more))
    assert found(decoder, "times the values").holds is False


def test_an_output_that_is_more_than_its_heads(decoder: Transformer) -> None:
    class More(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    decoder.get_submodule("decoder.layers.1.self_attention.o").__class__ = More
    law = found(decoder, "heads sum")
    assert law.holds is False
    assert "2 tokens" in law.words


def test_a_cache_that_forgets(decoder: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "extend", lambda self, k, v: (k, v))
    law = found(decoder, "cached")
    assert law.holds is False
    assert law.cause == "cache-position-zero"


def test_a_beam_that_is_not_greedy(decoder: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.checker.inside.beam_search", lambda progress, *_: (progress.ids.flip(1), None))
    assert found(decoder, "beam of one").holds is False


def test_a_saved_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save(Transformer(gpt2(1, 8, 2)), tmp_path / "model")
    text, data, code = laws_of(tmp_path / "model")
    assert code == 0
    assert "holds   cached = full" in text
    assert json.loads(data)["passed"] is True


def test_no_saved_model(tmp_path: Path) -> None:
    text, data, code = laws_of(tmp_path / "none")
    assert code == 2
    assert "is not a folder" in text
    assert json.loads(data)["passed"] is None
