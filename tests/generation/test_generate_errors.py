"""Bad input: a ValueError that names the option, the numbers and the fix, before the model runs."""

from dataclasses import fields
from typing import Any

import pytest
import torch

from clearhead.config import Positions
from clearhead.generation.generate import generate
from clearhead.generation.loop import stream
from clearhead.generation.options import Options
from clearhead.model.transformer import Transformer
from generation.toys import decoder_only, encoder_decoder

IDS = torch.tensor([[5, 6, 7]])
BAD: list[tuple[dict[str, Any], str]] = [
    ({"max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1"),
    ({"min_new_tokens": -1}, "min_new_tokens is -1; it must be from 0 to max_new_tokens, which is 20"),
    ({"min_new_tokens": 21}, "min_new_tokens is 21"),
    ({"num_beams": 0}, "num_beams is 0"),
    ({"num_return_sequences": 0}, "num_return_sequences is 0"),
    ({"num_return_sequences": 2}, "num_return_sequences is 2, but num_beams is 1"),
    ({"num_return_sequences": 4, "num_beams": 3}, "num_return_sequences is 4, but num_beams is 3"),
    ({"num_return_sequences": 2, "do_sample": True, "temperature": 0}, "num_return_sequences is 2, but num_beams is 1"),
    ({"temperature": -0.5, "do_sample": True}, "temperature is -0.5; it must be 0"),
    ({"temperature": float("nan"), "do_sample": True}, "temperature is nan"),
    ({"temperature": float("inf"), "do_sample": True}, "temperature is inf"),
    ({"top_p": 1.5, "do_sample": True}, "top_p is 1.5; it must be from 0 to 1"),
    ({"top_p": -0.1, "do_sample": True}, "top_p is -0.1"),
    ({"min_p": 1.5, "do_sample": True}, "min_p is 1.5"),
    ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0; it must be a positive number"),
    ({"early_stopping": "always"}, "early_stopping is 'always'; it must be True, False or \"never\""),
    ({"temperature": 0.7}, "temperature is 0.7, but it has an effect only with do_sample=True"),
    ({"top_k": 5}, "top_k is 5, but it has an effect only with do_sample=True"),
    ({"top_p": 0.9}, "top_p is 0.9, but it has an effect only with do_sample=True"),
    ({"min_p": 0.1, "num_beams": 2}, "min_p is 0.1, but it has an effect only with do_sample=True"),
    ({"do_sample": True, "num_beams": 2}, "do_sample is True and num_beams is 2; choose one"),
    ({"eos_token_id": 11}, "eos_token_id is 11, but the vocabulary has 11 tokens"),
    ({"eos_token_id": [2, -1]}, "eos_token_id is -1"),
    ({"pad_token_id": 99}, "pad_token_id is 99"),
    ({"decoder_input_ids": IDS}, "decoder_input_ids is for a decoder beside an encoder"),
    ({"input_features": IDS}, "input_features is given, but this model reads text, input_ids"),
    ({"forced_bos_token_id": 11}, "forced_bos_token_id is 11, but the vocabulary has 11 tokens"),
    ({"forced_bos_token_id": 3}, "forced_bos_token_id is 3, but 3 tokens stand already"),
    ({"suppress_tokens": [3, 11]}, "suppress_tokens is 11, but the vocabulary"),
    ({"begin_suppress_tokens": [-1]}, "begin_suppress_tokens is -1, but the vocabulary"),
]


def silent(model: Transformer) -> Transformer:
    """A model that must not run."""

    def fail(*_: Any) -> None:
        raise AssertionError("the model ran before the check")

    for stack in (model.encoder, model.decoder):
        if stack is not None:
            stack.register_forward_pre_hook(fail)
    return model


@pytest.mark.parametrize(("options", "message"), BAD, ids=[str(options) for options, _ in BAD])
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(silent(decoder_only()), IDS, **options)
    if options.get("num_beams", 1) == 1:
        with pytest.raises(ValueError, match=message):
            stream(silent(decoder_only()), IDS, **options)  # at once, not with the first token


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_k": 0}, {"top_k": None}, {"min_p": 0.0}], ids=str)
def test_filters_that_are_off_are_no_contradiction(options: dict[str, Any]) -> None:
    model = decoder_only()
    assert torch.equal(generate(model, IDS, **options), generate(model, IDS))


def test_bad_text() -> None:
    model = silent(decoder_only())
    cases = [
        ((torch.tensor([[5, 11]]),), "input_ids holds 11, but there are 11"),
        ((torch.tensor([5, 6]),), r"input_ids is torch.int64 \[2\]; expected int64 \[batch, tokens\]"),
        ((IDS.float(),), "input_ids is torch.float32"),
        ((IDS, torch.ones(1, 4)), r"attention_mask is \[1, 4\], but input_ids is \[1, 3\]"),
        ((IDS, torch.full((1, 3), 2)), "attention_mask holds 2; expected only 1"),
    ]
    for given, message in cases:
        with pytest.raises(ValueError, match=message):
            generate(model, *given)


def test_bad_text_for_a_pair_of_stacks() -> None:
    model = silent(encoder_decoder())
    begun = torch.tensor([[2, 13]])
    cases = [
        ((), {}, "input_ids is missing"),
        ((torch.zeros(1, 0, dtype=torch.int64),), {}, "there are no tokens"),
        ((torch.tensor([[17]]),), {}, "input_ids holds 17, but there are 17"),
        ((IDS,), {"decoder_input_ids": begun}, "decoder_input_ids holds 13, but there are 13"),
        ((IDS,), {"decoder_input_ids": begun.expand(2, 2) * 0}, "decoder_input_ids has 2 rows, but input_ids has 1"),
        ((IDS,), {"decoder_start_token_id": 13}, "decoder_start_token_id is 13"),
    ]
    for given, options, message in cases:
        with pytest.raises(ValueError, match=message):
            generate(model, *given, **options)
    with pytest.raises(ValueError, match=r"decoder_start_token_id, config\.start and config\.bos are all None"):
        generate(silent(encoder_decoder(start=None, bos=None)), IDS)


def test_pos_08_no_room_in_the_position_table() -> None:
    model = silent(decoder_only(positions=Positions(kind="learned", count=16)))
    with pytest.raises(ValueError, match="the prompt has 3 tokens"):
        generate(model, IDS, max_new_tokens=14)
    with pytest.raises(ValueError, match="max_new_tokens is 14, together 17, but the position table has 16 rows"):
        generate(model, IDS, max_new_tokens=14)
    with pytest.raises(ValueError, match="the text has 17 tokens, but the position table has 16 rows"):
        generate(model, IDS.repeat(1, 6)[:, :17], max_new_tokens=1)
    with pytest.raises(ValueError, match="max_new_tokens is 20, together 21, but the position table has 12 rows"):
        generate(silent(encoder_decoder(table=12)), IDS)


@pytest.mark.parametrize("side", [0, 1])
def test_pos_08_all_the_room_can_be_used_and_padding_takes_none(side: int) -> None:
    model = decoder_only(positions=Positions(kind="learned", count=16))
    assert generate(model, IDS, max_new_tokens=13, eos_token_id=()).shape == (1, 16)
    gap = torch.ones(1, 9, dtype=torch.int64)
    ids = torch.cat([gap, IDS] if side else [IDS, gap], dim=1)
    padded = generate(model, ids, max_new_tokens=13, eos_token_id=())
    assert torch.equal(padded[:, 12:], generate(model, IDS, max_new_tokens=13, eos_token_id=())[:, 3:])


def test_a_model_without_head() -> None:
    with pytest.raises(ValueError, match=r"config\.head is None"):
        generate(decoder_only(head=None), IDS)


def test_stream_has_no_beams() -> None:
    with pytest.raises(ValueError, match="num_beams is 2, but beam search knows its text only at the end"):
        stream(decoder_only(), IDS, num_beams=2)


def test_the_docstring_names_every_option_with_its_default() -> None:
    text = " ".join((generate.__doc__ or "").split())
    for field in fields(Options):
        assert field.name in text
        if field.default is not None:
            assert f"{field.name}={field.default}" in text
    with pytest.raises(TypeError, match="max_tokens"):
        generate(decoder_only(), IDS, max_tokens=3)
