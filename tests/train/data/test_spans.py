"""Spans that are taken out: nothing is lost, as much as the paper says, and the same for the same seed."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.train.data.batches import Blocks, stream
from clearhead.train.data.ids import Ids
from clearhead.train.data.spans import Spans, corrupted, spans_in, woven

SENTINELS = range(9000, 9400)
EOS = 8999


def data(count: int = 200, length: int = 20, size: int = 3) -> Spans:
    return Spans(Blocks(Ids.of([list(range(count))]), length, size, ahead=0), SENTINELS, EOS)


class Ends:
    """Draws that cut after the first tokens."""

    def permutation(self, size: int) -> np.ndarray:
        return np.arange(max(size, 0))


@given(st.integers(2, 1200), st.integers(0, 2**32))
def test_what_is_left_and_the_target_give_the_text(length: int, seed: int) -> None:
    text = np.arange(length)
    left, target = corrupted(text, SENTINELS, np.random.default_rng(seed))
    assert woven(left.tolist(), target.tolist(), SENTINELS) == text.tolist()
    taken, spans = spans_in(length)
    assert taken == min(max(round(length * 0.15), 1), length - 1)
    assert spans == max(round(taken / 3), 1)
    assert (len(left), len(target)) == (length - taken + spans, taken + spans + 1)
    assert [i for i in left if i >= 9000] == list(SENTINELS[:spans])
    assert [i for i in target if i >= 9000] == list(SENTINELS[: spans + 1])
    assert left[0] == 0, "something is left in front"
    assert target[0] == 9000
    assert target[-1] == 9000 + spans
    assert (np.diff(np.flatnonzero(target >= 9000)) > 1).all(), "no span is empty"
    assert (np.diff(np.flatnonzero(left >= 9000)) > 1).all(), "no two spans touch"


def test_a_row_by_hand() -> None:
    left, target = corrupted(np.arange(30), SENTINELS, Ends())  # type: ignore[arg-type]
    assert spans_in(30) == (4, 1)
    assert left.tolist() == [*range(26), 9000]
    assert target.tolist() == [9000, 26, 27, 28, 29, 9001]
    left, target = corrupted(np.arange(40), SENTINELS, Ends())  # type: ignore[arg-type]
    assert left.tolist() == [0, 9000, *range(2, 35), 9001]
    assert target.tolist() == [9000, 1, 9001, *range(35, 40), 9002]


def test_a_last_token_that_stands_alone_is_read_and_nothing_is_asked() -> None:
    left, target = corrupted(np.array([7]), SENTINELS, np.random.default_rng(0))
    assert (left.tolist(), target.tolist()) == ([7, 9000], [9000, 9001])


def test_shares_and_lengths_are_those_of_the_paper() -> None:
    rng, length, count = np.random.default_rng(1), 512, 300
    sizes, where = list[int](), np.zeros(length)
    for _ in range(count):
        left, target = corrupted(np.arange(length), SENTINELS, rng)
        marks = np.flatnonzero(target >= 9000)
        sizes += (np.diff(marks) - 1).tolist()
        where[[i for i in range(length) if i not in {*left.tolist()}]] += 1
    assert sum(sizes) / (count * length) == pytest.approx(0.15, abs=1e-3)
    assert np.mean(sizes) == pytest.approx(77 / 26), "77 tokens in 26 spans"
    # 26 parts of 77 tokens, all cuts equally likely: the first is 1 with probability 25 / 76
    assert np.mean(np.array(sizes) == 1) == pytest.approx(25 / 76, abs=4 * 0.5 / len(sizes) ** 0.5)
    middle = where[100:400] / count  # far from the ends each token is as likely as any other
    assert middle.mean() == pytest.approx(77 / 512, abs=0.01)
    assert abs(middle - middle.mean()).max() < 5 * (0.15 * 0.85 / count) ** 0.5


def test_rows_of_a_batch_are_as_long_as_each_other_and_end() -> None:
    batch = next(stream(data(), 0))
    assert spans_in(20) == (3, 1)
    assert batch["input_ids"].shape == (3, 20 - 3 + 1 + 1)
    assert batch["labels"].shape == (3, 3 + 2 + 1)
    assert (batch["input_ids"][:, -1] == EOS).all()
    assert (batch["labels"][:, -1] == EOS).all()


def test_the_same_seed_takes_out_the_same_and_each_epoch_something_else() -> None:
    def read(seed: int, done: int = 0) -> list[torch.Tensor]:
        return [batch["labels"] for batch in islice(stream(data(), seed, done), 9 - done)]

    first = read(5)
    assert all(torch.equal(a, b) for a, b in zip(first, read(5), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first[4:], read(5, 4), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, read(6), strict=True))


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_processes_share_a_batch_as_one_would_read_it(ranks: int) -> None:
    alone = islice(stream(data(), 1), 12)
    shared = zip(*(islice(stream(data(), 1, 0, rank, ranks), 12) for rank in range(ranks)), strict=True)
    for whole, parts in zip(alone, shared, strict=True):
        for name in whole:
            rows = [part[name][i] for i in range(3) for part in parts if i < len(part[name])]
            assert torch.equal(torch.stack(rows[: len(whole[name])]), whole[name])


def test_validation_reads_every_token_once_and_is_the_same_each_time() -> None:
    kept = data(count=47)
    rows = [row for batch in kept.whole() for row in zip(batch["input_ids"], batch["labels"], strict=True)]
    again = [row for batch in kept.whole() for row in zip(batch["input_ids"], batch["labels"], strict=True)]
    assert all(torch.equal(a, b) for one, two in zip(rows, again, strict=True) for a, b in zip(one, two, strict=True))
    text = [i for left, target in rows for i in woven(left.tolist()[:-1], target.tolist()[:-1], SENTINELS)]
    assert text == list(range(47))
