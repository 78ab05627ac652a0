"""The functions on logits: worked cases, properties, and equality with transformers' processors."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from clearhead.generation.choose import adjust, min_p, pick, repetition_penalty, seen_tokens, temperature, top_k, top_p
from clearhead.generation.generate import generate
from clearhead.generation.options import Options
from clearhead.generation.stop import Stop
from generation.toys import decoder_only

NOTHING = torch.zeros(1, 0, dtype=torch.int64)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3


def test_gen_08_temperature_zero_is_greedy_and_a_tiny_one_is_finite() -> None:
    logits = normal(5, 7)
    best = logits.argmax(-1)
    assert torch.equal(pick(logits, Options(do_sample=True, temperature=0.0)), best)
    for t in (1e-4, 1e-30, 1e-300, 5e-324):
        scaled = temperature(logits, t)
        assert not scaled.isnan().any()
        assert torch.equal(scaled.softmax(-1).argmax(-1), best)
        assert torch.equal(pick(logits, Options(do_sample=True, temperature=t)), best)


def test_gen_08_temperature_zero_generates_the_greedy_text() -> None:
    model, ids = decoder_only(), torch.tensor([[5, 6, 7]])
    greedy = generate(model, ids)
    assert torch.equal(generate(model, ids, do_sample=True, temperature=0.0), greedy)
    assert torch.equal(generate(model, ids, do_sample=True, temperature=1e-4), greedy)
    assert not torch.equal(generate(model, ids, do_sample=True, temperature=5.0), greedy)


def test_gen_09_filters_that_are_off_and_filters_that_keep_only_the_best() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    for k in (None, 0, -1, 3, 4):
        assert torch.equal(top_k(logits, k), logits)
    assert torch.equal(top_p(logits, 1.0), logits)
    assert torch.equal(min_p(logits, None), logits)
    assert torch.equal(min_p(logits, 0.0), logits)
    for only in (top_p(logits, 1e-4), top_p(logits, 0.0), top_k(logits, 1), min_p(logits, 1.0)):
        assert only.softmax(-1).tolist() == [[1.0, 0.0, 0.0]]


def test_gen_10_repetition_penalty_counts_a_token_once_and_padding_never() -> None:
    logits = torch.tensor([[-1.0, 1.0, 0.5]])
    seen = seen_tokens(torch.tensor([[2, 0, 1, 1]]), torch.tensor([[False, True, True, True]]), vocab=3)
    assert seen.tolist() == [[True, True, False]]
    assert repetition_penalty(logits, seen, 2.0).tolist() == [[-2.0, 0.5, 0.5]]


def test_top_p_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    for p, kept in ((0.4, 1), (0.6, 2), (0.79, 2), (0.81, 3), (0.99, 4)):
        assert (top_p(logits, p) > -math.inf).sum() == kept


@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0, 1), st.integers(-1, 10), st.floats(0, 1))
def test_every_filter_leaves_the_best_token_and_changes_no_other_logit(
    seed: int, vocab: int, p: float, k: int, least: float
) -> None:
    logits = normal(2, vocab, seed=seed)
    best = logits.argmax(-1, keepdim=True)
    for filtered in (top_p(logits, p), top_k(logits, k), min_p(logits, least)):
        assert torch.equal(filtered.gather(-1, best), logits.gather(-1, best))
        assert ((filtered == logits) | (filtered == -math.inf)).all()


@pytest.mark.parametrize("seed", range(5))
def test_filters_equal_those_of_transformers(seed: int) -> None:
    logits, ids = normal(3, 17, seed=seed), torch.randint(0, 17, (3, 6))
    for k in (1, 5, 17, 40):
        assert torch.equal(top_k(logits, k), TopKLogitsWarper(k)(ids, logits))
    for p in (0.0, 0.3, 0.9, 0.999):
        assert torch.equal(top_p(logits, p), TopPLogitsWarper(p)(ids, logits))
        assert torch.equal(min_p(logits, p), MinPLogitsWarper(p)(ids, logits))
    for t in (0.3, 1.0, 2.5):
        theirs = TemperatureLogitsWarper(t)(ids, logits).log_softmax(-1)
        torch.testing.assert_close(temperature(logits, t).log_softmax(-1), theirs, rtol=1e-5, atol=1e-5)
    for penalty in (0.5, 1.0, 1.7):
        theirs = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
        assert torch.equal(repetition_penalty(logits, seen_tokens(ids, None, 17), penalty), theirs)


def test_sampling_draws_with_the_probabilities_that_the_filters_leave() -> None:
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    options = Options(do_sample=True, top_k=3, top_p=0.75, generator=torch.Generator().manual_seed(0))
    drawn = pick(probabilities.log().expand(20_000, 4), options)
    share = torch.bincount(drawn, minlength=4) / len(drawn)
    # Of the three best (4, 3, 2 ninths) the first two make 78 %: they stay, and share everything.
    torch.testing.assert_close(share, torch.tensor([4 / 7, 3 / 7, 0.0, 0.0]), atol=0.015, rtol=0)


def test_sampling_is_repeatable_by_seed_and_by_generator() -> None:
    model, ids = decoder_only(), torch.tensor([[5, 6, 7], [4, 4, 4]])

    def drawn(generator: torch.Generator | None = None) -> Tensor:
        return generate(model, ids, do_sample=True, temperature=2.0, eos_token_id=(), generator=generator)

    torch.manual_seed(3)
    first, other = drawn(), drawn()
    torch.manual_seed(3)
    assert torch.equal(drawn(), first)
    assert not torch.equal(other, first)
    assert torch.equal(drawn(torch.Generator().manual_seed(3)), first)


def test_several_draws_of_one_prompt_stand_together_and_differ() -> None:
    model, ids = decoder_only(), torch.tensor([[5, 6, 7], [4, 8, 4]])
    drawn = generate(model, ids, do_sample=True, temperature=2.0, num_return_sequences=3, eos_token_id=())
    assert drawn.shape == (6, 23)
    assert torch.equal(drawn[:, :3], ids.repeat_interleave(3, 0))
    assert len({tuple(row) for row in drawn.tolist()}) == 6


def test_forbidden_tokens_can_not_be_chosen() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0]])
    stop = Stop(eos=(2,), pad=0, least=0, most=5)
    assert adjust(logits, Options(), NOTHING, None, stop._replace(banned=(0,)), 3).argmax() == 1
    assert torch.equal(adjust(logits, Options(), NOTHING, None, stop, 3), logits)


def test_the_first_token_may_be_forced_and_some_may_not_come_first() -> None:
    """A forced token costs nothing: it is not the model's choice, and a beam's score is not to suffer from it."""
    logits = torch.tensor([[3.0, 2.0, 1.0]])
    stop = Stop(eos=(), pad=0, least=0, most=5, late=(0,), forced=2)
    first, second, third = (adjust(logits, Options(), NOTHING, None, stop, written) for written in range(3))
    assert first.tolist() == [[-math.inf, -math.inf, 0.0]]
    assert second.argmax() == 1
    assert third.argmax() == 0
    assert adjust(logits, Options(), NOTHING, None, stop._replace(forced=None), 0).argmax() == 1
