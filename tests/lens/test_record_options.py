"""Recording on request: gradients, other types, a limit, what it will cost; every step of a generation."""

import pytest
import torch
from torch import nn

from clearhead.generation.generate import generate
from clearhead.lens.memory import cost
from clearhead.lens.record import record
from clearhead.lens.rows import Gradient, Weights
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, sites
from lens.products import inputs
from model.tiny import ALL, DECODERS, TRANSLATORS, build, text


def loss(model: Transformer, kind: str) -> torch.Tensor:
    found = model(**inputs(kind))
    return (found.hidden if found.logits is None else found.logits).square().mean()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ins_12_recording_everything_changes_no_bit(kind: str, dtype: torch.dtype) -> None:
    model = build(ALL[kind]()).to(dtype)
    for padded in (True, False):
        before = model(**inputs(kind, padded=padded)).hidden
        with record(model, "*") as seen:
            during = model(**inputs(kind, padded=padded)).hidden
        assert torch.equal(before, during)
        assert set(seen) == set(sites(model.config))


@pytest.mark.parametrize("kind", ALL)
def test_gradients_are_those_of_autograd(kind: str) -> None:
    model = build(ALL[kind]())
    with record(model, "*", grad=True) as seen:
        loss(model, kind).backward()
    parameters = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    stack = next(iter(model.config.stacks))
    end = seen.grads[f"{stack}.final"]
    assert isinstance(end, torch.Tensor)
    assert end.abs().max() > 0
    weights = {address: grad for address, grad in seen.grads.items() if address.endswith(".weights")}
    assert weights
    for address, grad in weights.items():
        assert isinstance(grad, Gradient)
        assert grad.shape == seen[address].shape
    model.zero_grad()
    loss(model, kind).backward()
    again = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(torch.equal(a, b) for a, b in zip(parameters, again, strict=True)), "asking changed the gradients"


def test_a_gradient_is_the_slope() -> None:
    """Against finite differences, through an edit that adds to one number."""
    kind = "rotary_decoder"
    model = build(ALL[kind]()).double()
    with record(model, ["decoder.0.self.weights", "decoder.0.residual"], grad=True) as seen:
        loss(model, kind).backward()
    from clearhead.lens.edit import edit

    for address, place in (("decoder.0.residual", (1, 4, 3)), ("decoder.0.self.weights", (1, 2, 5, 3))):
        slope = seen.grads[address]
        slope = slope.dense()[place] if isinstance(slope, Gradient) else slope[place]
        values: list[torch.Tensor] = []
        for step in (1e-6, -1e-6):

            def moved(value: torch.Tensor, step: float = step, place: tuple[int, ...] = place) -> torch.Tensor:
                change = torch.zeros_like(value)
                change[place] = step
                return value + change

            with edit(model, {address: moved}), torch.no_grad():
                values.append(loss(model, kind))
        assert torch.allclose((values[0] - values[1]) / 2e-6, slope, rtol=1e-4, atol=1e-9)


def test_ins_05_after_the_block_nothing_fires() -> None:
    model = build(ALL["rotary_decoder"]())
    with record(model, "decoder.final", grad=True) as seen:
        value = loss(model, "rotary_decoder")
    value.backward()
    assert seen.grads == {}
    assert model.tap is SILENT


def test_what_is_kept_may_be_of_another_type() -> None:
    model = build(ALL["rotary_decoder"]())
    with (
        record(model, ["*.weights", "*.residual"], dtype=torch.bfloat16, device="cpu") as small,
        record(model, "*") as seen,
    ):
        loss(model, "rotary_decoder")
    for address, value in small.items():
        if isinstance(value, Weights):
            assert value.q.dtype == torch.bfloat16
            assert (value.dense().float() - seen[address].dense()).abs().max() < 0.05
        else:
            assert torch.equal(value, seen[address].bfloat16())


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("pattern", ["*", "*.weights", "*.residual", "*.self.*", "*.hidden"])
def test_ins_08_the_cost_is_known_before(kind: str, pattern: str) -> None:
    model, given = build(ALL[kind]()), inputs(kind, padded=False)
    length, target = given["input_ids"].shape[1], given.get("decoder_input_ids", given["input_ids"]).shape[1]
    said = cost(model.config, pattern, tokens=target, source=length, batch=2, dtype=torch.float64)
    with torch.no_grad(), record(model, pattern) as seen:
        model(**given)
    assert set(said) == set(seen)
    assert abs(sum(said.values()) - seen.bytes) <= 0.1 * seen.bytes


def test_a_recording_over_its_limit_is_refused_with_both_numbers() -> None:
    model = build(ALL["rotary_decoder"]())
    before = model(**inputs("rotary_decoder")).hidden
    with (
        pytest.raises(ValueError, match=r"would hold [\d,]+ bytes, the limit is 2,000"),
        record(model, "*", limit=2000),
    ):
        model(**inputs("rotary_decoder"))
    assert model.tap is SILENT
    assert torch.equal(model(**inputs("rotary_decoder")).hidden, before)


def test_recording_what_is_computed_twice_is_refused() -> None:
    from torch.utils.checkpoint import checkpoint

    model = build(ALL["rotary_decoder"]())
    ids = text(2, 9, vocab=31)
    with record(model, "decoder.final"):
        states = torch.zeros(1, requires_grad=True)
        value = checkpoint(lambda s: model(ids).hidden + s, states, use_reentrant=False).sum()
        with pytest.raises(ValueError, match="activation checkpointing"):
            value.backward()


@torch.no_grad()
@pytest.mark.parametrize("kind", [*DECODERS, *TRANSLATORS])
@pytest.mark.parametrize("beams", [1, 3])
def test_ins_09_every_step_of_a_generation_is_one_forward_over_its_result(kind: str, beams: int) -> None:
    model = build(ALL[kind]())
    two = kind in TRANSLATORS
    given = text(2, 6, vocab=31)
    wanted = ["decoder.*.weights", "decoder.*.residual", "decoder.*.heads", "logits"]
    with record(model, wanted) as steps:
        out = generate(model, given, max_new_tokens=7, num_beams=beams)
    for sample in range(2):
        ids = out[sample]
        read = ids[: (ids == 0).nonzero()[0, 0]] if not two and (ids[6:] == 0).any() else ids
        source = {"input_ids": given[sample : sample + 1]} if two else {}
        key = "decoder_input_ids" if two else "input_ids"
        with record(model, wanted) as clean:
            model(**source, **{key: read[None, :-1]})
        followed = steps.follow(read, sample=sample, samples=2)
        assert set(followed) == set(clean)
        for address, value in followed.items():
            truth = clean[address].dense() if isinstance(clean[address], Weights) else clean[address]
            count = value.shape[-2]
            assert count >= len(read) - 2 if beams > 1 else count == len(read) - 1
            assert (value - truth[..., :count, : value.shape[-1]]).abs().max() < 1e-4, address


def test_following_a_text_that_was_never_read_is_refused() -> None:
    model = build(ALL["rotary_decoder"]())
    with record(model, "logits") as seen, torch.no_grad():
        model(text(2, 5, vocab=31))
    with pytest.raises(ValueError, match="no row of the call with 5 tokens had read"):
        seen.follow(torch.zeros(9, dtype=torch.int64))


def test_a_wrapped_model_is_looked_into() -> None:
    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module):
            super().__init__()
            self.module = module

    model = build(ALL["rotary_decoder"]())
    with record(Wrapper(model), "logits") as seen:
        model(**inputs("rotary_decoder"))
    assert "logits" in seen
    with (
        pytest.raises(ValueError, match=r"model is a Linear; the lens looks into a clearhead\.Transformer"),
        record(nn.Linear(2, 2), "logits"),
    ):
        pass
