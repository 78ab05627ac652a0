"""A text is the same alone and among others, padded left or right; and where texts end."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from clearhead.config import Positions
from clearhead.generation.generate import generate
from clearhead.generation.loop import begin, stream
from clearhead.generation.options import Options
from clearhead.model.transformer import Transformer, shift_right
from generation.toys import decoder_only, encoder_decoder, encoder_only, ragged

ROWS = [[5, 6, 7, 4], [3, 8], [9, 10, 4]]
WAYS: list[dict[str, Any]] = [{}, {"num_beams": 3}, {"repetition_penalty": 1.5}]
PAD, EOS = 1, 2


def learned(**changes: Any) -> Transformer:
    return decoder_only(positions=Positions(kind="learned", count=40), **changes)


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("make", [decoder_only, learned, encoder_decoder])
def test_gen_04_gen_07_alone_as_in_a_padded_batch(
    make: Callable[[], Transformer], side: str, options: dict[str, Any]
) -> None:
    model = make()
    ids, mask = ragged(ROWS, side)
    start = 1 if model.encoder is not None else ids.shape[1]
    together = generate(model, ids, mask, max_new_tokens=8, **options)[:, start:]
    inferred = generate(model, ids, max_new_tokens=8, **options)[:, start:]
    assert torch.equal(together, inferred)
    for row, text in zip(together.tolist(), ROWS, strict=True):
        alone = generate(model, torch.tensor([text]), max_new_tokens=8, **options)
        new = alone[0, 1 if model.encoder is not None else len(text) :].tolist()
        assert row == new + [PAD] * (len(row) - len(new))


def test_gen_04_a_mask_that_cannot_be_inferred_must_be_given() -> None:
    model = decoder_only(pad=EOS)
    for side in ("left", "right"):
        ids, mask = ragged(ROWS, side, pad=EOS)
        with pytest.raises(ValueError, match="attention_mask is missing, and input_ids begins or ends with 2"):
            generate(model, ids)
        generate(model, ids, mask)
    with pytest.raises(ValueError, match="attention_mask is missing"):  # no pad at all: then eos is what fills
        generate(decoder_only(pad=None), ragged(ROWS, "left", pad=EOS)[0])
    with pytest.raises(ValueError, match="attention_mask is missing"):
        generate(model, torch.tensor([[EOS, EOS, 7, 8]]))


def test_gen_04_no_false_alarm() -> None:
    model = decoder_only(bos=EOS, pad=None)
    for rows in ([[EOS, 5, 6]], [[EOS]], [[5, EOS, 6], [7, 8, 9]]):
        ids = torch.tensor(rows)
        unmasked, masked = generate(model, ids), generate(model, ids, torch.ones_like(ids))
        assert torch.equal(unmasked, masked)


def test_gen_11_only_pad_after_eos_and_a_length_per_row() -> None:
    model = learned()
    ids = torch.arange(3, 11)[:, None]
    free = generate(model, ids, max_new_tokens=12, eos_token_id=())[:, 1:]
    ends = free[0, 1].item(), free[1, 3].item()
    found = generate(model, ids, max_new_tokens=12, eos_token_id=ends, return_dict_in_generate=True)
    assert found.sequences_scores is None
    for row, length, whole in zip(found.sequences[:, 1:].tolist(), found.lengths.tolist(), free.tolist(), strict=True):
        first = next((i + 1 for i, token in enumerate(whole) if token in ends), len(whole))
        assert length == first
        assert row == whole[:first] + [PAD] * (len(row) - first)
    assert found.lengths.unique().numel() > 1


def test_gen_11_generation_stops_when_all_rows_have_ended() -> None:
    model = decoder_only()
    ids = torch.tensor([[5, 6, 7], [4, 8, 4]])
    free = generate(model, ids, eos_token_id=())[:, 3:].tolist()
    ends = [free[0][1], free[1][4]]
    longest = max(next(i + 1 for i, token in enumerate(row) if token in ends) for row in free)
    assert generate(model, ids, eos_token_id=ends).shape[1] == 3 + longest
    assert len(list(stream(model, ids, eos_token_id=ends))) == longest


def test_gen_11_eos_is_what_config_and_tokenizer_name_unless_given() -> None:
    class Tokenizer:
        eos, pad, bos = 9, 1, 0

    model = decoder_only(eos=(2, 4))
    model.tokenizer = Tokenizer()  # type: ignore[assignment]
    ids = torch.tensor([[5]])
    assert begin(model, ids, None, Options())[1].eos == (2, 4, 9)
    assert begin(model, ids, None, Options(eos_token_id=7))[1].eos == (7,)
    assert begin(model, ids, None, Options(eos_token_id=()))[1].eos == ()


def test_min_new_tokens_puts_the_end_off() -> None:
    model, ids = decoder_only(), torch.tensor([[5, 6, 7]])
    end = generate(model, ids, eos_token_id=())[0, 3].item()
    for least in (0, 1, 2, 5):
        found = generate(model, ids, eos_token_id=end, min_new_tokens=least, return_dict_in_generate=True)
        assert found.lengths.item() >= max(least, 1)
        assert end not in found.sequences[0, 3 : 3 + least - 1]


def test_gen_12_an_empty_prompt_starts_from_bos_and_changes_no_other_row() -> None:
    model = learned()
    bos = torch.tensor([[0]])
    alone = generate(model, bos, eos_token_id=())
    assert torch.equal(generate(model, eos_token_id=()), alone)
    assert torch.equal(generate(model, torch.zeros(1, 0, dtype=torch.int64), eos_token_id=()), alone)
    for side in ("left", "right"):
        ids, mask = ragged([[5, 6, 7], [], [3, 8]], side)
        found = generate(model, ids, mask, eos_token_id=())
        assert torch.equal(found[1, 3:], alone[0, 1:])
        others = generate(model, ids[[0, 2]], mask[[0, 2]], eos_token_id=())
        assert torch.equal(found[[0, 2]], others)


def test_gen_12_without_bos_an_empty_prompt_is_an_error() -> None:
    model = decoder_only(bos=None)
    ids, mask = ragged([[5, 6, 7], []], "left")
    for given in ((), (torch.zeros(1, 0, dtype=torch.int64),), (ids, mask)):
        with pytest.raises(ValueError, match=r"holds an empty prompt, and there is no config\.bos"):
            generate(model, *given)
    with pytest.raises(ValueError, match="row 1 of input_ids is all padding"):
        generate(encoder_decoder(), ids, mask)


def test_gen_13_the_start_token_comes_from_the_config_and_may_be_eos() -> None:
    labels = torch.tensor([[0, 7, 8, 2, PAD]])
    model = encoder_decoder(start=EOS)
    assert shift_right(labels, EOS, PAD).tolist() == [[2, 0, 7, 8, 2]]
    found = generate(model, torch.tensor([[5, 6]]), min_new_tokens=3, max_new_tokens=3)
    assert found[0, 0] == EOS
    assert found.shape == (1, 4)
    assert generate(model, torch.tensor([[5, 6]]), decoder_start_token_id=7)[0, 0] == 7
    assert generate(encoder_decoder(start=None), torch.tensor([[5, 6]]))[0, 0] == 0  # bos


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "temperature": 3.0}], ids=str)
def test_gen_14_a_text_may_start_from_pad_but_never_holds_it(options: dict[str, Any]) -> None:
    model = encoder_decoder(start=PAD)
    assert model.head is not None
    model.head.bias = torch.nn.Parameter(torch.zeros(13))
    model.head.bias.data[PAD] = 50.0  # by far the best, if it were allowed
    found = generate(model, torch.tensor([[5, 6], [8, 9]]), return_dict_in_generate=True, **options)
    for row, length in zip(found.sequences.tolist(), found.lengths.tolist(), strict=True):
        assert row[0] == PAD
        assert PAD not in row[1 : 1 + length]


def test_gen_14_the_head_bias_takes_part() -> None:
    model = encoder_decoder(start=PAD)
    assert model.head is not None
    model.head.bias = torch.nn.Parameter(torch.zeros(13))
    model.head.bias.data[8] = 100.0
    assert (generate(model, torch.tensor([[5, 6]]))[0, 1:] == 8).all()


def test_a_pad_that_was_only_passed_in_fills_and_forbids_nothing() -> None:
    model, ids = decoder_only(pad=None), torch.tensor([[5, 6, 7]])
    free = generate(model, ids, eos_token_id=())
    first = free[0, 3].item()
    assert torch.equal(generate(model, ids, eos_token_id=(), pad_token_id=first), free)


@pytest.mark.parametrize("options", [{}, {"do_sample": True}], ids=str)
def test_stream_gives_the_columns_of_generate(options: dict[str, Any]) -> None:
    model = decoder_only()
    ids, mask = ragged(ROWS, "left")
    torch.manual_seed(1)
    whole = generate(model, ids, mask, **options)
    torch.manual_seed(1)
    columns = list(stream(model, ids, mask, **options))
    assert torch.equal(torch.stack(columns, dim=1), whole[:, 4:])


def test_streaming_leaves_the_callers_gradient_mode_alone() -> None:
    model, inside = decoder_only(), []
    assert model.decoder is not None
    model.decoder.register_forward_hook(lambda *_: inside.append(torch.is_grad_enabled()))
    for _ in stream(model, torch.tensor([[5, 6]]), max_new_tokens=2, eos_token_id=()):
        assert torch.is_grad_enabled()
    generate(model, torch.tensor([[5, 6]]), max_new_tokens=2, eos_token_id=(), num_beams=2)
    assert inside == [False] * 4
    with torch.inference_mode():
        generate(model, torch.tensor([[5, 6]]), max_new_tokens=2)


def test_the_mode_of_the_model_stays() -> None:
    model = decoder_only(dropout=0.5)
    ids = torch.arange(3, 11)[:, None]
    assert torch.equal(generate(model, ids), generate(model, ids))
    model.train()
    assert not torch.equal(generate(model, ids), generate(model, ids))
    assert model.training


def test_int32_ids_are_welcome() -> None:
    for model in (decoder_only(), encoder_decoder()):
        ids = torch.tensor([[5, 6, 7]])
        assert torch.equal(generate(model, ids.int()), generate(model, ids))


def test_an_encoder_alone_says_why_it_cannot() -> None:
    with pytest.raises(ValueError, match="encoder only: each of its positions sees the whole text"):
        generate(encoder_only(), torch.tensor([[5, 6]]))
