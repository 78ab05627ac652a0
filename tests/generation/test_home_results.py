"""The same ids and scores as transformers' `generate`, on tiny random models with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.generation.generate import generate
from generation.homes import PAD, bart, gpt2

MAKERS = [gpt2, bart]


def prompts(make: Any, vocab: int) -> tuple[Tensor, Tensor]:
    """Of four lengths, padded where the library wants it."""
    ids = torch.randint(3, vocab, (4, 6), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    for row in range(1, 4):
        mask[row, :row] = 0
    ids = torch.where(mask == 1, ids, PAD)
    return (ids, mask) if make is gpt2 else (ids.flip(1), mask.flip(1))


def compare(make: Any, seed: int = 0, vocab: int = 12, **options: Any) -> Tensor:
    """Their sequences, after asserting that ours are the same."""
    home, ours = make(seed, vocab, std=0.6)
    ids, mask = prompts(make, vocab)
    details = {"return_dict_in_generate": True, **options}
    suppressed = [PAD, *options.get("suppress_tokens", ())]  # ours never writes pad anyway
    home_only = {"do_sample": False, "output_scores": True, **details, "suppress_tokens": suppressed}
    torch.manual_seed(seed)
    theirs = home.generate(ids, attention_mask=mask, **home_only)
    torch.manual_seed(seed)
    found = generate(ours, ids, mask, **details)
    assert torch.equal(found.sequences, theirs.sequences)
    if options.get("num_beams", 1) > 1:
        torch.testing.assert_close(found.sequences_scores, theirs.sequences_scores, rtol=1e-4, atol=1e-4)
    return theirs.sequences


@pytest.mark.parametrize("make", MAKERS)
def test_logits(make: Any) -> None:
    home, ours = make()
    ids, _ = prompts(make, 12)
    with torch.no_grad():
        inputs = {} if make is gpt2 else {"decoder_input_ids": ids.flip(1)}
        torch.testing.assert_close(ours(ids, **inputs).logits, home(ids, **inputs).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"eos_token_id": [2, 5, 7]},
        {"min_new_tokens": 6},
        {"repetition_penalty": 1.3},
        {"repetition_penalty": 0.7},
        {"use_cache": False},
    ],
    ids=str,
)
def test_greedy(make: Any, options: dict[str, Any]) -> None:
    for seed in range(3):
        compare(make, seed, max_new_tokens=10, **options)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("num_beams", [2, 3, 4])
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
def test_beams(make: Any, num_beams: int, early_stopping: bool | str) -> None:
    for seed, length_penalty in ((0, -0.5), (0, 1.0), (1, 0.0), (1, 2.0)):
        beams = {"num_beams": num_beams, "early_stopping": early_stopping, "length_penalty": length_penalty}
        compare(make, seed, max_new_tokens=12, num_return_sequences=num_beams - 1, **beams)


@pytest.mark.parametrize("make", MAKERS)
def test_beams_with_everything_else(make: Any) -> None:
    more = {"repetition_penalty": 1.2, "min_new_tokens": 3, "eos_token_id": [2, 5]}
    for num_beams in (2, 5):
        compare(make, 4, max_new_tokens=9, num_beams=num_beams, **more)
        compare(make, 5, max_new_tokens=1, num_beams=num_beams, eos_token_id=[2, 5])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "filters", [{}, {"temperature": 1.7, "top_k": 4}, {"top_p": 0.8}, {"min_p": 0.1, "top_k": 0}], ids=str
)
def test_the_same_seed_draws_the_same_tokens(make: Any, filters: dict[str, Any]) -> None:
    """No promise, only a sharp test: the filters, their order and the number of draws are all the same."""
    for seed in (0, 1):
        found = compare(make, seed, max_new_tokens=8, do_sample=True, num_return_sequences=2, **filters)
        assert not torch.equal(found[::2], found[1::2])


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("forced", [{}, {"forced_bos_token_id": 7}])
def test_tokens_that_are_forced_and_tokens_that_may_not_come(num_beams: int, forced: dict[str, int]) -> None:
    for seed in range(3):
        plain = compare(bart, seed, max_new_tokens=10, num_beams=num_beams, **forced)
        often, first = int(plain[plain > 2].mode().values), int(plain[0, 1 + len(forced)])
        named = {"suppress_tokens": [often], "begin_suppress_tokens": [first, 8]}
        found = compare(bart, seed, max_new_tokens=10, num_beams=num_beams, **named, **forced)
        assert often not in found[:, 1 + len(forced) :]
        assert first not in found[:, 1 + len(forced)]
        assert not forced or set(found[:, 1].tolist()) == {7}


def test_some_texts_end_and_some_do_not() -> None:
    """The comparisons above would be dull otherwise."""
    found = [compare(make, seed, max_new_tokens=12, num_beams=3) for seed in range(3) for make in MAKERS]
    ended = sum(int((text[:, 1:] == 2).any(1).sum()) for text in found)
    assert 0 < ended < 4 * len(found)


def test_a_decoder_prompt_gets_the_start_token_unless_it_has_one() -> None:
    home, ours = bart(1, std=0.6)
    ids = torch.tensor([[5, 6, 7]])
    for begun in ([[9, 4]], [[2, 9, 4]]):
        begun = torch.tensor(begun)
        theirs = home.generate(ids, decoder_input_ids=begun, max_new_tokens=5, suppress_tokens=[PAD])
        assert torch.equal(generate(ours, ids, decoder_input_ids=begun, max_new_tokens=5), theirs)
