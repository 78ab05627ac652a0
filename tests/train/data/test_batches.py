"""Batches: every example once per epoch, any step from the seed alone, and processes that share it without overlap."""

from itertools import islice

import numpy as np
import pytest
import torch

from clearhead.train.data.batches import Blocks, Data, Pairs, by_budget, stream
from clearhead.train.data.ids import Ids
from clearhead.train.data.masked import Masked
from clearhead.train.data.packed import Packed


def numbered(count: int, length: int = 8, size: int = 3) -> Blocks:
    return Blocks(Ids.of([list(range(count))]), length, size)


def lengthy(count: int, tokens: int = 12) -> Pairs:
    """Pairs that tell their number."""
    rows = [[i + 3] * (1 + i % 5) for i in range(count)]
    return Pairs(Ids.of(rows), Ids.of(rows[::-1][::-1]), tokens, pad=0)


def packed(count: int) -> Packed:
    """Documents that tell their number."""
    rows = [[i + 3] * (2 + i % 7) for i in range(count)]
    return Packed(Ids.of(rows), np.ones(count, dtype=np.bool_), length=10, size=2, pad=0)


def masked(count: int) -> Masked:
    return Masked(Blocks(Ids.of([[3 + i % 50 for i in range(count)]]), 8, 3, ahead=0), mask=1, words=np.arange(3, 53))


EVERY = {"text": numbered(100), "pairs": lengthy(50), "packed": packed(50), "gaps": masked(100)}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("count", [9, 17, 24, 25, 100])
def test_blocks_of_an_epoch_do_not_overlap_and_stay_inside(count: int) -> None:
    data = numbered(count)
    for seed in range(5):
        epoch = data.epoch(np.random.default_rng(seed))
        assert len(epoch) == data.per_epoch
        rows = [data.batch(chosen)["input_ids"] for chosen in epoch]
        predicted = torch.cat([row[:, 1:].flatten() for row in rows]).tolist()
        assert len(set(predicted)) == len(predicted) == 8 * data.count
        assert max(predicted) < count


def test_every_token_of_a_text_but_the_first_is_scored_once() -> None:
    for count in range(2, 60):
        rows = [batch["labels"][:, 1:].flatten() for batch in numbered(count).whole()]
        assert torch.cat(rows).tolist() == list(range(1, count)), count


def test_blocks_for_an_encoder_have_its_tokens_around_them() -> None:
    data = Blocks(Ids.of([list(range(10, 20))]), 6, 2, ahead=0, edges=(1, 2))
    rows = [row for batch in data.whole() for row in batch["input_ids"].tolist()]
    assert rows == [[1, 10, 11, 12, 13, 2], [1, 14, 15, 16, 17, 2], [1, 18, 19, 2]]


@pytest.mark.parametrize("data", [lengthy(100), packed(100)], ids=["pairs", "packed"])
def test_trn_04_each_example_once_per_epoch(data: Pairs | Packed) -> None:
    for seed in range(3):
        batches = [data.batch(chosen)["labels"] for chosen in data.epoch(np.random.default_rng(seed))]
        seen = [int(i) for batch in batches for i in batch.unique() if i >= 0]
        assert sorted(seen) == list(range(3, 103))


@pytest.mark.parametrize("data", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("done", [0, 1, 4, 17, 40])
def test_trn_04_a_stream_goes_on_where_it_was_left(data: Data, done: int) -> None:
    whole = list(islice(stream(data, 3), done, done + 8))
    rest = list(islice(stream(data, 3, done), 8))
    assert all(equal(a, b) for a, b in zip(whole, rest, strict=True))
    assert not torch.equal(rest[0]["labels"], next(stream(data, 4, done))["labels"])


@pytest.mark.parametrize("data", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_trn_10_processes_share_each_batch_and_nobody_waits_for_an_uneven_end(data: Data, ranks: int) -> None:
    alone = islice(stream(data, 3), 30)
    shared = zip(*(islice(stream(data, 3, 0, rank, ranks), 30) for rank in range(ranks)), strict=True)
    for whole, parts in zip(alone, shared, strict=True):
        rows = [[tuple(filter(lambda i: i > 0, row)) for row in batch["labels"].tolist()] for batch in (whole, *parts)]
        there = [row for part in rows[1:] for row in part if row]
        assert sorted(rows[0]) == sorted(there)
        assert all(len(batch["labels"]) for batch in parts)


def test_a_budget_holds_what_it_can_and_a_long_row_stands_alone() -> None:
    lengths = np.array([3, 9, 1, 3, 2, 30])
    batches = by_budget(lengths, 9)
    assert sorted(np.concatenate(batches).tolist()) == list(range(6))
    assert [[int(lengths[i]) for i in batch] for batch in batches] == [[1, 2, 3], [3], [9], [30]]
    assert all(len(batch) * lengths[batch].max() <= 9 or len(batch) == 1 for batch in batches)


def test_pairs_are_padded_and_padding_counts_nothing() -> None:
    data = Pairs(Ids.of([[3, 2], [3, 4, 2]]), Ids.of([[3, 2], [4, 3, 2]]), 9, pad=0)
    batch = data.batch([0, 1])
    assert batch["input_ids"].tolist() == [[3, 2, 0], [3, 4, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["labels"].tolist() == [[3, 2, -100], [4, 3, 2]]


def test_gaps_are_as_in_the_paper_and_others_every_time() -> None:
    text = np.random.default_rng(0).integers(3, 100, 200_000)
    data = Masked(Blocks(Ids.of([text]), 512, 64, ahead=0), mask=1, words=np.arange(3, 100))
    batch, other = islice(stream(data, 0), 2)
    asked = batch["labels"] != -100
    given, wanted = batch["input_ids"][asked], batch["labels"][asked]
    assert asked.float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert (given == 1).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (given == wanted).float().mean().item() == pytest.approx(0.1 + 0.1 / 97, abs=0.02)
    assert not torch.equal(asked, other["labels"] != -100)
    assert torch.equal(batch["input_ids"][~asked] >= 3, torch.ones_like(batch["input_ids"][~asked], dtype=torch.bool))


def test_gaps_leave_special_tokens_alone_and_each_row_has_one() -> None:
    data = Masked(Blocks(Ids.of([[7, 8] * 40]), 4, 50, ahead=0, edges=(5, 6)), mask=1, words=np.array([7, 8]))
    for batch in data.whole():
        assert bool(((batch["labels"] != -100).sum(1) >= 1).all())
        assert not bool(((batch["labels"] == 5) | (batch["labels"] == 6)).any())
        assert bool((batch["input_ids"][:, 0] == 5).all())
    assert all(equal(a, b) for a, b in zip(data.whole(), data.whole(), strict=True))
