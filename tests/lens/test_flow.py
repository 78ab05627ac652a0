"""Attention rollout: the product of the mean weights, and nothing moves where nothing is looked at."""

from dataclasses import replace

import pytest
import torch

from clearhead.lens import rollout
from clearhead.lens.edit import edit
from clearhead.lens.edits import patch
from clearhead.lens.record import record
from lens.random_models import IDS, KINDS, PAIR, both, inputs, made


@pytest.mark.parametrize("name", ["gpt2", "llama", "encoder"])
def test_rollout_of_identity_attention_is_identity(name: str) -> None:
    model = made(KINDS[name])
    with edit(model, {"*.self.weights": patch(torch.eye(6))}):
        found = rollout(model, IDS)
    assert torch.equal(found.values, torch.eye(6))


@pytest.mark.parametrize("name", KINDS)
def test_every_row_sums_to_one_and_no_future_flows_back(name: str) -> None:
    model = made(KINDS[name])
    found = rollout(model, inputs(model.config))
    assert torch.allclose(found.values.sum(1), torch.ones(len(found.values)), atol=1e-5)
    own = found.values[:, -len(found.values) :]
    assert name == "encoder" or torch.equal(own, own.tril())
    assert found.note.startswith("An approximation")


def test_rollout_is_the_product_of_the_mean_weights_and_what_stays() -> None:
    model = made(KINDS["llama"])
    with record(model, "*.weights") as seen:
        model(IDS)
    expected = torch.eye(6)
    for view in seen.values():
        expected = (view.dense()[0].mean(0) + torch.eye(6)) / 2 @ expected
    assert torch.allclose(rollout(model, IDS).values, expected, atol=1e-6)


def test_a_decoder_beside_an_encoder_mixes_in_the_source() -> None:
    model = made(both())
    pattern = torch.eye(4)[[2, 0, 3]]
    changes = {"encoder.*.weights": torch.eye(4), "*.cross.weights": pattern, "decoder.*.self.weights": torch.eye(3)}
    with edit(model, {address: patch(weights) for address, weights in changes.items()}):
        found = rollout(model, PAIR)
        encoder = rollout(model, PAIR, stack="encoder")
    assert found.more["stack"] == ["encoder"] * 4 + ["decoder"] * 3
    assert found.axes["token"] == ["3", "4", "5", "6", "1", "9", "10"]
    assert torch.equal(found.values, torch.cat([0.75 * pattern, 0.25 * torch.eye(3)], dim=1))
    assert torch.equal(encoder.values, torch.eye(4))


def test_parallel_branches_share_in_equal_parts() -> None:
    config = both()
    writer = replace(config.decoder.layers[0], parallel=True)
    model = made(replace(config, decoder=replace(config.decoder, layers=(writer,))))
    pattern = torch.eye(4)[[2, 0, 3]]
    changes = {"encoder.*.weights": torch.eye(4), "*.cross.weights": pattern, "decoder.*.self.weights": torch.eye(3)}
    with edit(model, {address: patch(weights) for address, weights in changes.items()}):
        found = rollout(model, PAIR)
    assert torch.allclose(found.values, torch.cat([pattern / 3, 2 * torch.eye(3) / 3], dim=1))


def test_states_that_were_given_count_as_the_source() -> None:
    model = made(both())
    with torch.no_grad():
        states = model.encode(PAIR["input_ids"])
    found = rollout(model, {"encoder_hidden": states, "decoder_input_ids": PAIR["decoder_input_ids"]})
    assert found.axes["token"] == ["0", "1", "2", "3", "1", "9", "10"]
    assert torch.allclose(found.values.sum(1), torch.ones(3), atol=1e-5)


def test_a_stack_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="stack='encoder'; this model has decoder"):
        rollout(made(KINDS["gpt2"]), IDS, stack="encoder")
