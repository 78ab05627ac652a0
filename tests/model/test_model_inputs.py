"""What a model refuses, in words and numbers, before any compute."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.model.cache import Cache
from clearhead.tap import Tap
from model.tiny import ALL, build, text

IDS, ONES = text(2, 5), torch.ones(2, 5, dtype=torch.int64)
SOURCE = text(2, 4, vocab=31)
LONG = {"input_ids": text(1, 49)}


def filled(rows: int = 2) -> Cache:
    cache = Cache()
    with torch.no_grad():
        build(ALL["learned_decoder"]())(text(rows, 3, seed=5), cache=cache)
    return cache


D, E, T = "learned_decoder", "learned_encoder", "relative_translator"
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no ids": (D, {}, "input_ids is missing"),
    "no source": (T, {"decoder_input_ids": IDS}, "input_ids is missing"),
    "no target": (T, {"input_ids": SOURCE}, "decoder_input_ids is missing.*labels to shift"),
    "one text": (
        D,
        {"input_ids": IDS[0]},
        r"input_ids is torch.int64 \[5\]; expected int64 \[batch, tokens\].*ids\[None\]",
    ),
    "floats": (D, {"input_ids": IDS.float()}, r"input_ids is torch.float32 \[2, 5\]; expected int64"),
    "empty text": (D, {"input_ids": IDS[:, :0]}, r"input_ids is \[2, 0\].*no tokens.*bos"),
    "empty batch": (D, {"input_ids": IDS[:0]}, r"input_ids is \[0, 5\].*no tokens"),
    "TRN-07 id past the vocabulary": (
        D,
        {"input_ids": IDS * 0 + 41},
        r"input_ids holds 41, but there are 41 \(0 to 40\)",
    ),
    "id below 0": (D, {"input_ids": IDS * 0 - 1}, "input_ids holds -1, but there are 41"),
    "target id": (T, {"input_ids": SOURCE, "decoder_input_ids": IDS * 0 + 50}, "decoder_input_ids holds 50.* 41"),
    "source id": (T, {"input_ids": SOURCE * 0 + 35, "decoder_input_ids": IDS}, "input_ids holds 35.* 31"),
    "mask size": (
        D,
        {"input_ids": IDS, "attention_mask": ONES[:, :4]},
        r"attention_mask is \[2, 4\].*input_ids is \[2, 5\]",
    ),
    "mask of one text": (D, {"input_ids": IDS, "attention_mask": ONES[0]}, "attention_mask has 1 dimensions.* 2"),
    "mask values": (D, {"input_ids": IDS, "attention_mask": ONES * 2}, r"attention_mask holds 2; expected only 1"),
    "mask of -inf": (D, {"input_ids": IDS, "attention_mask": ONES * -torch.inf}, "holds -inf.*pass `mask == 0`"),
    "positions size": (
        D,
        {"input_ids": IDS, "positions": torch.arange(4)},
        r"positions is \[4\].*input_ids is \[2, 5\]",
    ),
    "positions below 0": (D, {"input_ids": IDS, "positions": torch.arange(5) - 2}, "positions holds -2.*0"),
    "positions past the table": (D, {"input_ids": IDS, "positions": torch.arange(5) + 44}, "49 tokens.*48 rows"),
    "POS-08 text past the table": (D, LONG, "49 tokens.*48 rows.*shorten"),
    "encoder past the table": (E, LONG, "49 tokens.*48 rows"),
    "no token types": (D, {"input_ids": IDS, "token_type_ids": IDS * 0}, "token_type_ids.*token_types 0.*leave"),
    "token types": (E, {"input_ids": IDS, "token_type_ids": IDS * 0 + 2}, r"token_type_ids holds 2, but there are 2"),
    "types size": (E, {"input_ids": IDS, "token_type_ids": IDS[:, :2]}, r"token_type_ids is \[2, 2\].*\[2, 5\]"),
    "labels size": (E, {"input_ids": IDS, "labels": IDS.view(5, 2)}, r"labels is \[5, 2\].*\[2, 5\]"),
    "labels of a decoder": (D, {"input_ids": IDS, "labels": IDS[:, :4]}, r"labels is \[2, 4\].*\[2, 5\]"),
    "label past the vocabulary": (D, {"input_ids": IDS, "labels": IDS * 0 + 41}, "labels holds 41.* 41"),
    "label below 0": (D, {"input_ids": IDS, "labels": IDS * 0 - 5}, "labels holds -5"),
    "labels of one text": (T, {"input_ids": SOURCE, "labels": IDS[0]}, r"labels is \[5\].*labels\[None\]"),
    "labels without a head": ("rotary_encoder", {"input_ids": IDS, "labels": IDS}, "labels.*config.head is None"),
    "rows": (
        T,
        {"input_ids": SOURCE, "decoder_input_ids": text(3, 2)},
        "decoder_input_ids has 3 rows.*input_ids has 2",
    ),
    "rows of states": (
        T,
        {"encoder_hidden": torch.zeros(1, 4, 11).double(), "decoder_input_ids": IDS},
        "has 2 rows.*encoder_hidden has 1",
    ),
    "states": (T, {"encoder_hidden": torch.zeros(2, 4, 7), "decoder_input_ids": IDS}, r"\[2, 4, 7\]; expected.*11\]"),
    "mask of states": (
        T,
        {"encoder_hidden": torch.zeros(2, 4, 11), "attention_mask": ONES, "decoder_input_ids": IDS},
        r"attention_mask is \[2, 5\], but encoder_hidden is \[2, 4, 11\]",
    ),
    "two texts for one stack": (
        D,
        {"input_ids": IDS, "decoder_input_ids": IDS},
        "decoder_input_ids.*one stack.*leave it out",
    ),
    "two masks for one stack": (
        D,
        {"input_ids": IDS, "decoder_attention_mask": ONES},
        "decoder_attention_mask.*one stack",
    ),
    "states for one stack": (
        E,
        {"input_ids": IDS, "encoder_hidden": torch.zeros(2, 5, 12)},
        "encoder_hidden.*one stack",
    ),
    "cache for an encoder": (E, {"input_ids": IDS, "cache": Cache()}, "cache.*config.decoder is None"),
    "rows of the cache": (D, {"input_ids": text(3, 2), "cache": filled(2)}, "input_ids has 3 rows.*cache holds 2"),
    "packed with a cache": (
        D,
        {"input_ids": IDS, "positions": torch.tensor([0, 1, 2, 0, 1]), "cache": Cache()},
        "start again.*without a cache",
    ),
    "cache past the table": (D, {"input_ids": text(2, 46), "cache": filled()}, "49 tokens.*48 rows"),
}


class Never(Tap):
    """Nothing may be computed before the message."""

    def __call__(self, site: str, value: Any) -> Any:
        raise AssertionError(f"{site} was computed")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_compute(name: str) -> None:
    kind, given, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        build(ALL[kind]())(**given, tap=Never())


def test_pos_08_the_table_may_be_used_to_its_end() -> None:
    model = build(ALL["learned_decoder"]())
    assert model(text(1, 48)).logits.shape == (1, 48, 41)
    padded = torch.cat([torch.zeros(1, 9, dtype=torch.int64), torch.ones(1, 48, dtype=torch.int64)], 1)
    assert model(text(1, 57), padded).logits.shape == (1, 57, 41)
    with pytest.raises(ValueError, match=r"57 tokens.*48 rows"):
        model(text(1, 57), torch.ones(1, 57))


@torch.no_grad()
def test_padding_in_the_cache_takes_no_room_in_the_table() -> None:
    model, cache = build(ALL["learned_decoder"]()), Cache()
    mask = torch.cat([torch.zeros(1, 9), torch.ones(1, 40)], 1).long()
    model(text(1, 49), mask, cache=cache)
    assert model(text(1, 8, seed=1), cache=cache).logits.shape == (1, 8, 41)
    with pytest.raises(ValueError, match=r"49 tokens.*48 rows"):
        model(text(1, 1, seed=1), cache=cache)


def test_encode_needs_an_encoder() -> None:
    with pytest.raises(ValueError, match=r"config\.encoder is None"):
        build(ALL["learned_decoder"]()).encode(IDS)


def test_labels_need_a_start_to_be_shifted() -> None:
    from dataclasses import replace

    config = replace(ALL["relative_translator"](), start=None)
    with pytest.raises(ValueError, match=r"config.start \(or bos\) and config.pad"):
        build(config)(SOURCE, labels=IDS)


def test_an_empty_cache_says_so() -> None:
    with pytest.raises(ValueError, match="the cache is empty"):
        Cache().layer(0).cross.all()


def test_int32_ids_and_one_row_of_positions_are_welcome() -> None:
    model = build(ALL["learned_decoder"]())
    expected: Tensor = model(IDS).logits
    assert torch.equal(model(IDS.int()).logits, expected)
    assert torch.allclose(model(IDS, positions=torch.arange(5)).logits, expected, atol=1e-10, rtol=0)
