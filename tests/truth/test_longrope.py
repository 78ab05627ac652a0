"""Texts that outgrow the length up to which a model's rotary positions are short, against the home library."""

from typing import Any

import pytest
import torch

import clearhead
from truth.cases import Case, case, close, text


@pytest.fixture
def long() -> Any:
    """Short factors up to 32 tokens."""
    with torch.no_grad():
        yield case("phi3, longrope")


@pytest.mark.parametrize("tokens", [32, 33])
def test_the_length_itself_is_short(long: Case, tokens: int) -> None:
    ids = text(2, tokens)
    close(long.mine(input_ids=ids), long.theirs(input_ids=ids))


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generation_across_the_length(long: Case, num_beams: int) -> None:
    ids = text(3, 25)
    options: dict[str, Any] = {"max_new_tokens": 14, "num_beams": num_beams, "eos_token_id": None}
    theirs = long.home.generate(ids, do_sample=False, suppress_tokens=[long.pad], **options)
    assert theirs.shape == (3, 39)
    assert torch.equal(clearhead.generate(long.ours, ids, **options), theirs)


def test_a_short_text_beside_a_long_one_is_the_unpadded_sample(long: Case) -> None:
    """The home library turns the short one by the long one's factors."""
    ids, mask = text(2, 40), torch.ones(2, 40, dtype=torch.int64)
    ids[1, :20], mask[1, :20] = long.pad, 0
    mine = long.mine(input_ids=ids, attention_mask=mask)
    close(mine[:1], long.theirs(input_ids=ids[:1]))
    close(mine[1:, 20:], long.theirs(input_ids=ids[1:, 20:]))
