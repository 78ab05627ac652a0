"""Whisper against its home library, where it differs from a translator of texts."""

from typing import Any

import pytest
import torch
from transformers import GenerationMixin

import clearhead
from truth.cases import case, close, sound, text

HEARD = ["whisper", "whisper, plain"]


@pytest.mark.parametrize("name", HEARD)
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_of_the_decoder_is_the_unpadded_sample(name: str, side: str) -> None:
    c = case(name)
    features, ids, mask = sound(2), text(2, 23, seed=7), torch.ones(2, 23, dtype=torch.int64)
    there = slice(8, None) if side == "left" else slice(0, 15)
    mask[1] = 0
    mask[1, there] = 1
    mine = c.mine(input_features=features, decoder_input_ids=ids, decoder_attention_mask=mask)
    close(mine[1:, there], c.theirs(input_features=features[1:], decoder_input_ids=ids[1:, there]))


@torch.no_grad()
def test_states_of_the_encoder() -> None:
    c = case("whisper")
    features = sound(2, seed=3)
    states = c.ours.encode(input_features=features)
    close(states, c.home.model.encoder(features).last_hidden_state)
    written = text(2, 9)
    again = c.ours(decoder_input_ids=written, encoder_hidden=states).logits
    assert torch.equal(again, c.ours(input_features=features, decoder_input_ids=written).logits)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_generation_with_the_tokens_that_whisper_names(num_beams: int) -> None:
    """A prompt of several tokens, some that are never written, and some that do not come first."""
    c = case("whisper")
    first = GenerationMixin.generate(c.home, input_features=sound(3), max_new_tokens=9, do_sample=False)[:, 1:]
    given: dict[str, Any] = {
        "input_features": sound(3),
        "decoder_input_ids": torch.tensor([[2, 9, 11]]).repeat(3, 1),
        "begin_suppress_tokens": [int(first[0, 0]), 2],
        "suppress_tokens": [c.pad, int(first[1].mode().values)],
        "max_new_tokens": 9,
        "num_beams": num_beams,
    }
    theirs = GenerationMixin.generate(c.home, **given, do_sample=False)
    assert torch.equal(clearhead.generate(c.ours, **given), theirs)
    assert theirs.shape[1] > 4


@pytest.mark.parametrize("name", HEARD)
def test_the_home_librarys_own_keeps_the_laws_of_its_text(name: str) -> None:
    """It hears one length only, and is told where the tokens behind padding on the left stand."""
    report = clearhead.laws(case(name).home)
    assert report.passed, repr(report)
    assert sum(law.holds is True for law in report.laws) == 6
