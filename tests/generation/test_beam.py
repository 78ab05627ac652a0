"""Beam search against every text there is."""

import math

import pytest
import torch

from clearhead.generation.generate import Generation, generate
from generation.toys import END, START, A, B, Toy, ab_odds, decoder_only, drawn_odds, encoder_decoder, enumerate_texts

PROMPT = torch.tensor([[START]])


def search(model: Toy, **options: object) -> Generation:
    found = generate(model, PROMPT, return_dict_in_generate=True, **options)
    assert isinstance(found, Generation)
    return found


def new(found: Generation, row: int = 0) -> tuple[int, ...]:
    return tuple(found.sequences[row, 1 : 1 + found.lengths[row]].tolist())


def test_gen_05_the_length_penalty_ranks_and_no_search_stops_with_its_first_finished_text() -> None:
    toy = Toy(ab_odds, vocab=4, eos=END)
    plain = search(toy, num_beams=2, max_new_tokens=5, length_penalty=0.0, early_stopping="never")
    assert new(plain) == (A, END)
    assert plain.sequences_scores.item() == pytest.approx(-1.0217, abs=5e-5)
    per_token = search(toy, num_beams=2, max_new_tokens=5, length_penalty=1.0, early_stopping="never")
    assert new(per_token) == (B, B, END)
    assert per_token.sequences_scores.item() == pytest.approx(-0.3969, abs=5e-5)
    assert per_token.sequences_scores.item() * 3 == pytest.approx(-1.1907, abs=5e-5)
    # Hugging Face's guess finds it too; its early stopping as well, since "a E" alone does not fill two beams.
    for early_stopping in (False, True):
        assert new(search(toy, num_beams=2, max_new_tokens=5, early_stopping=early_stopping)) == (B, B, END)


def test_gen_06_the_prompt_does_not_count() -> None:
    def odds(text: tuple[int, ...]) -> dict[int, float]:
        return {A: 0.6, END: 0.4} if len(text) < 50 else {END: 0.9, A: 0.1}

    toy = Toy(lambda text: odds(text[prompt - 1 :]), vocab=4, eos=END)
    found = []
    for prompt in (5, 50):
        ids = torch.full((1, prompt), START)
        found.append(generate(toy, ids, num_beams=2, max_new_tokens=4, return_dict_in_generate=True))
    short, long = found
    assert torch.equal(short.sequences[:, 5:], long.sequences[:, 50:])
    assert torch.equal(short.sequences_scores, long.sequences_scores)


@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_gen_05_wide_beams_find_the_best_of_all_texts(seed: int, length_penalty: float) -> None:
    odds, most, beams = drawn_odds(seed, vocab=3), 4, 24  # 24 = 2 * 2 * 2 * 3 candidates in the last step
    texts = [(s / len(t) ** length_penalty, t) for t, s in enumerate_texts(odds, END, most)]
    texts.sort(reverse=True)
    options = {"max_new_tokens": most, "length_penalty": length_penalty, "early_stopping": "never"}
    found = search(Toy(odds, vocab=4, eos=END), num_beams=beams, num_return_sequences=5, **options)
    for row in range(5):
        assert new(found, row) == texts[row][1]
        assert found.sequences_scores[row].item() == pytest.approx(texts[row][0], rel=1e-5)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.0])
def test_never_stops_early_only_when_nothing_is_lost(seed: int, length_penalty: float) -> None:
    """The same search, made unable to stop by asking for all of its beams, has the same best text."""
    odds = drawn_odds(seed + 100, vocab=3)
    options = {"num_beams": 3, "max_new_tokens": 8, "length_penalty": length_penalty, "early_stopping": "never"}
    quick, slow = Toy(odds, vocab=4, eos=END), Toy(odds, vocab=4, eos=END)
    best, all_three = search(quick, **options), search(slow, num_return_sequences=3, **options)
    assert new(best) == new(all_three)
    assert best.sequences_scores[0] == all_three.sequences_scores[0]
    assert quick.calls <= slow.calls


def test_never_stops_as_soon_as_nothing_can_be_lost() -> None:
    toy = Toy(lambda text: {END: 0.9, A: 0.06, B: 0.04}, vocab=4, eos=END)
    found = search(toy, num_beams=2, max_new_tokens=50, length_penalty=0.0, early_stopping="never")
    assert new(found) == (END,)
    assert toy.calls == 1


def test_early_stopping_by_hand() -> None:
    """Two texts are finished after two steps, and a third, longer one is better per token: the exact search waits."""

    def odds(text: tuple[int, ...]) -> dict[int, float]:
        if not text:
            return {END: 0.6, A: 0.36, B: 0.04}
        if text == (A,):
            return {END: 0.6, A: 0.4}
        return {A: 0.999, B: 0.001} if len(text) < 5 else {END: 0.999, A: 0.001}

    toys = {early: Toy(odds, vocab=4, eos=END) for early in (True, False, "never")}
    options = {"num_beams": 2, "max_new_tokens": 8}
    found = {early: search(toy, early_stopping=early, **options) for early, toy in toys.items()}
    assert new(found[True]) == new(found[False]) == (END,)
    assert new(found["never"]) == (A, A, A, A, A, END)
    assert found["never"].sequences_scores > found[False].sequences_scores
    assert [toy.calls for toy in toys.values()] == [2, 2, 6]


def test_with_two_eos_ids_enough_candidates_are_kept_to_go_on() -> None:
    """After one token every beam may end in two ways, both better than going on, which pays in the end."""

    def odds(text: tuple[int, ...]) -> dict[int, float]:
        if not text:
            return {B: 0.6, START: 0.4}
        return {END: 0.45, A: 0.45, B: 0.1} if len(text) == 1 else {END: 0.99, B: 0.01}

    toy = Toy(odds, vocab=4, eos=(END, A))
    found = search(toy, num_beams=2, max_new_tokens=4, length_penalty=2.0, early_stopping="never")
    assert new(found) == (B, B, END)
    assert found.sequences_scores.item() == pytest.approx(math.log(0.6 * 0.1 * 0.99) / 3**2)


@pytest.mark.parametrize("make", [decoder_only, encoder_decoder])
def test_gen_07_one_beam_is_greedy_and_neighbours_change_nothing(make: object) -> None:
    model, ids = make(), torch.tensor([[5, 6, 7, 4], [4, 8, 4, 9], [3, 3, 10, 5]])
    for beams in (1, 3):
        together = generate(model, ids, num_beams=beams, max_new_tokens=9, return_dict_in_generate=True)
        for row in range(3):
            alone = generate(model, ids[row : row + 1], num_beams=beams, max_new_tokens=9)
            width = alone.shape[1]
            assert torch.equal(alone[0], together.sequences[row, :width])
            assert (together.sequences[row, width:] == 1).all()


def test_gen_07_a_search_with_one_beam_is_the_greedy_text() -> None:
    from clearhead.generation.beam import beam_search
    from clearhead.generation.loop import begin
    from clearhead.generation.options import Options

    model, ids = decoder_only(), torch.tensor([[5, 6, 7, 4], [4, 8, 4, 9]])
    options = Options(max_new_tokens=9)
    found, scores = beam_search(*begin(model, ids, None, options), options)
    assert torch.equal(found, generate(model, ids, max_new_tokens=9))
    assert (scores < 0).all()


def test_scores_come_from_the_models_own_log_probabilities() -> None:
    model, ids = decoder_only(), torch.tensor([[5, 6, 7], [4, 8, 4]])
    found = generate(model, ids, num_beams=4, num_return_sequences=2, max_new_tokens=6, return_dict_in_generate=True)
    for row, text in enumerate(found.sequences):
        length = int(found.lengths[row])
        text = text[: 3 + length]
        logp = model(text[None]).logits[0].log_softmax(-1)
        total = sum(logp[2 + i, text[3 + i]].item() for i in range(length))
        assert found.sequences_scores[row].item() == pytest.approx(total / length, rel=1e-4)


def test_fewer_texts_than_asked_for_are_marked() -> None:
    toy = Toy(lambda text: {A: 0.7, B: 0.3}, vocab=4, eos=END)
    found = search(toy, num_beams=3, num_return_sequences=3, max_new_tokens=1)
    assert [new(found, 0), new(found, 1)] == [(A,), (B,)]
    assert found.sequences_scores.tolist() == [pytest.approx(math.log(0.7)), pytest.approx(math.log(0.3)), -math.inf]
