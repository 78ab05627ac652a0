"""Recording: it sees what was computed, changes nothing, and leaves no trace."""

import pytest
import torch
from torch import Tensor

from clearhead.config import Attention, FeedForward, Layer, Positions, Rotary, Stack, TransformerConfig
from clearhead.formulas.attention import attention_weights
from clearhead.lens.record import record
from clearhead.lens.rows import Scores, Weights
from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, Tap
from lens.products import inputs
from model.tiny import ALL, build

IDS = torch.tensor([[3, 4, 5, 6, 7], [0, 0, 8, 9, 10]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])


@pytest.fixture
def model() -> Transformer:
    look = Attention(heads=4, kv_heads=2)
    reader = Layer(self_attention=look, feed_forward=FeedForward(dim=12))
    own = Attention(heads=4, causal=True, window=3, softcap=2.0, rotary=Rotary())
    writer = Layer(self_attention=own, feed_forward=FeedForward(dim=12), cross_attention=look)
    places = Positions(kind="interleaved")
    config = TransformerConfig(
        dim=16,
        encoder=Stack(layers=(reader,) * 2, vocab=11, positions=places),
        decoder=Stack(layers=(writer,) * 2, vocab=11, norm_out=True),
        pad=0,
    )
    return Transformer(config).eval()


def run(model: Transformer) -> torch.Tensor:
    return model(IDS, MASK, decoder_input_ids=IDS[:, 2:]).logits


def test_ins_12_recording_changes_no_bit(model: Transformer) -> None:
    before = run(model)
    with record(model, ["*"]) as seen:
        during = run(model)
    assert torch.equal(before, during)
    assert torch.equal(before, run(model))
    assert torch.equal(seen["logits"], before)
    assert model.tap is SILENT


def test_weights_are_those_of_the_formula_and_computed_on_demand(model: Transformer) -> None:
    with record(model, ["decoder.1.cross.*"]) as seen:
        run(model)
    weights = seen["decoder.1.cross.weights"]
    assert isinstance(weights, Weights)
    assert weights.shape == (2, 4, 3, 5)
    q, k = seen["decoder.1.cross.q"], seen["decoder.1.cross.k"]
    assert torch.allclose(weights.dense(), attention_weights(q, k, MASK[:, None, None, :].bool()), atol=1e-6)
    assert torch.equal(weights.dense()[1, :, :, :2], torch.zeros(4, 3, 2))
    assert torch.allclose(weights[1, 3, 2], weights.dense()[1, 3, 2])
    assert torch.allclose(weights.row(-1), weights.dense()[:, :, 2])
    with pytest.raises(IndexError, match="query 3 of 3; use 0 to 2"):
        weights.row(3)


def test_lazy_weights_equal_those_taken_in_flight(model: Transformer) -> None:
    class Opened(Tap):
        taken: dict[str, torch.Tensor] = {}  # noqa: RUF012

        def __init__(self, address: str = ""):
            self.address = address

        def at(self, name: str) -> "Opened":
            return Opened(f"{self.address}{name}.")

        def opens(self) -> bool:
            return True

        def __call__(self, site, value):
            self.taken[self.address + site] = value
            return value

    with record(model, ["*.weights", "*.scores"]) as seen:
        run(model)
    model(IDS, MASK, decoder_input_ids=IDS[:, 2:], tap=Opened())
    assert len(seen) == 12
    for address, lazy in seen.items():
        assert isinstance(lazy, Scores)
        assert torch.allclose(lazy.dense(), Opened.taken[address], atol=1e-5)


def test_globs_cross_dots_and_only_what_was_asked_is_kept(model: Transformer) -> None:
    with record(model, ["decoder.*.residual", "encoder.final"]) as seen:
        run(model)
    assert list(seen) == ["encoder.final", "decoder.0.residual", "decoder.1.residual"]


def test_unknown_addresses_raise_before_anything_runs(model: Transformer) -> None:
    with (
        pytest.raises(ValueError, match=r"no address matches 'decoder\.9\.self\.q'"),
        record(model, ["decoder.9.self.q"]),
    ):
        pass
    assert model.tap is SILENT


def test_nothing_recorded_yet_says_so(model: Transformer) -> None:
    with record(model, ["logits"]) as seen, pytest.raises(KeyError, match="run the model first"):
        seen["logits"]


def test_every_call_is_kept_and_cached_steps_see_all_keys(model: Transformer) -> None:
    with record(model, ["decoder.0.self.weights", "decoder.0.self.k"]) as seen, torch.no_grad():
        states, cache = model.encode(IDS, MASK), Cache()
        for t in range(3):
            model(attention_mask=MASK, decoder_input_ids=IDS[:, 2 + t : 3 + t], encoder_hidden=states, cache=cache)
    assert len(seen.calls) == 3
    last = seen.calls[2]["decoder.0.self.weights"]
    assert isinstance(last, Weights)
    assert last.shape == (2, 4, 1, 3)
    assert seen.calls[2]["decoder.0.self.k"].shape == (2, 4, 1, 4)
    assert torch.allclose(last.dense().sum(-1), torch.ones(2, 4, 1))


def test_ins_04_leaving_by_exception_leaves_no_trace(model: Transformer) -> None:
    def fail() -> None:
        with record(model, ["logits"]):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert model.tap is SILENT


def test_recorders_nest_and_each_hears_everything(model: Transformer) -> None:
    with record(model, ["encoder.final", "*.weights"]) as outer:
        with record(model, ["encoder.final"]) as inner:
            run(model)
        run(model)
    assert len(outer.calls) == 2
    assert len(inner.calls) == 1
    assert torch.equal(inner["encoder.final"], outer["encoder.final"])


def test_what_is_recorded_holds_no_graph(model: Transformer) -> None:
    with record(model, ["*"]) as seen:
        run(model)
    assert not any(value.requires_grad for value in seen.values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("entries", [2**24, 0], ids=["written down", "as a rule"])
def test_weights_stay_as_they_were_when_training_goes_on(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learned bias by distance is part of the rule."""
    monkeypatch.setattr("clearhead.model.position.BLOCK", entries)
    model = build(ALL["relative_translator"]())
    with record(model, "*.self.weights") as seen:
        model(**inputs("relative_translator"))
    assert all(isinstance(view.scoring.bias, Tensor) == bool(entries) for view in seen.values())
    before = [view.dense() for view in seen.values()]
    assert not any(weights.requires_grad for weights in before)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert all(torch.equal(view.dense(), weights) for view, weights in zip(seen.values(), before, strict=True))
