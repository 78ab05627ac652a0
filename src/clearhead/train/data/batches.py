"""Texts to batches: running text in blocks, sentence pairs by length.

What a batch holds follows from the seed and its number alone, so that a run can go on where it was left, and so that
several processes can share one batch without a word between them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.model.transformer import shift_right
from clearhead.train.data.ids import Ids, Numbers
from clearhead.train.loss import IGNORED, Batch

POOL = 64  # batches of pairs that are sorted by length together; with 16 there is a third more padding

Examples = Sequence[Any] | NDArray[Any]  # those of a batch, by what the data calls them
Keys = Sequence[Sequence[int]]  # what chance may depend on, for each row of a batch


class Data(Protocol):
    """Batches of examples."""

    @property
    def per_epoch(self) -> int | None:
        """Batches; None: nobody knows."""
        ...

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """Which examples each batch holds, without end, from the one after `done` batches on."""
        ...

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """The model's arguments and labels for these examples, a row each."""
        ...

    def whole(self) -> Iterator[Batch]:
        """Every target token exactly once, in order."""
        ...


class Shelf(Data, Protocol):
    """Examples that are all at hand."""

    def epoch(self, rng: np.random.Generator) -> list[Examples]:
        """Which examples each batch holds, going through all of them once."""
        ...


class Parts(NamedTuple):
    """What is trained on, and what is kept."""

    train: Data
    validation: Data
    kept_bytes: int | None  # what is to be predicted in validation, in UTF-8; None: not all of it


def stream(data: Data, seed: int, done: int = 0, rank: int = 0, ranks: int = 1) -> Iterator[Batch]:
    """Training batches without end, from the one after `done` on; each epoch in an order of its own.

    Of several processes each gets every `ranks`-th row, so that together they hold what one process would. Where a
    batch has fewer rows than there are processes, those left over get its first row with labels that count nothing.
    """
    for number, chosen in enumerate(data.plans(seed, done), done):
        rows = range(rank, len(chosen), ranks)
        if rows:
            yield data.batch([chosen[i] for i in rows], [(seed, number, i) for i in rows])
        else:
            batch = data.batch(chosen[:1], [(seed, number, 0)])
            yield {**batch, "labels": torch.full_like(batch["labels"], IGNORED)}


def in_epochs(data: Shelf, seed: int, done: int) -> Iterator[Examples]:
    """The plans of a shelf: epoch after epoch."""
    for number in count():
        chosen = data.epoch(np.random.default_rng([seed, number]))
        yield from chosen[done:]
        done = max(done - len(chosen), 0)


def padded(rows: Sequence[NDArray[np.integer[Any]]], filling: int) -> tuple[Tensor, Tensor]:
    """Rows filled up on the right: ids and mask (1 = keep), both int64 [B, T]."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max())[None] < lengths[:, None]
    ids = np.full(mask.shape, filling, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


def by_budget(lengths: Numbers, tokens: int) -> list[Numbers]:
    """Examples by length, in batches of at most so many tokens, padding included; one that is longer stands alone."""
    order = np.argsort(lengths, kind="stable")
    found: list[Numbers] = []
    start = 0
    while start < len(order):  # lengths rise, so the last of a batch says what it takes
        ahead = lengths[order[start : start + tokens]]
        fits = int((ahead * np.arange(1, len(ahead) + 1) <= tokens).sum())
        found.append(order[start : start + max(fits, 1)])
        start += max(fits, 1)
    return found


@dataclass(frozen=True)
class Blocks:
    """Running text, read in blocks of `length` tokens, `size` blocks per batch.

    ahead: 1 where each token is predicted from those before it, 0 where gaps are filled. edges: ids that go around
    each block and count in its length, as an encoder knows them.
    """

    ids: Ids
    length: int
    size: int
    ahead: int = 1
    edges: tuple[int, int] | None = None

    @property
    def step(self) -> int:
        """Tokens of text in a block."""
        return self.length - (2 if self.edges else 0)

    @property
    def count(self) -> int:
        """Blocks per epoch: one less than would fit, so that each epoch may cut elsewhere."""
        return max((self.ids.total - self.ahead) // self.step - 1, 1)

    @property
    def per_epoch(self) -> int:
        """Batches; the last may be short."""
        return -(-self.count // self.size)

    @property
    def given(self) -> Numbers:
        """The ids of the whole that are not predicted."""
        return self.ids.span(0, self.ahead)

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """See Data."""
        return in_epochs(self, seed, done)

    def epoch(self, rng: np.random.Generator) -> list[Examples]:
        """The first tokens of blocks that do not overlap, in any order."""
        room = self.ids.total - self.ahead + 1 - self.count * self.step
        starts = rng.integers(room) + self.step * rng.permutation(self.count)
        return [*(starts[i : i + self.size] for i in range(0, self.count, self.size))]

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """Rows of length + ahead."""
        return self._batch([self.ids.span(int(start), self.step + self.ahead) for start in chosen])

    def whole(self) -> Iterator[Batch]:
        """Block after block; the last holds what is left."""
        full = np.arange(0, self.ids.total - self.ahead - self.step + 1, self.step)
        for i in range(0, len(full), self.size):
            yield self.batch(full[i : i + self.size])
        rest = self.ids.span(len(full) * self.step, self.ids.total - len(full) * self.step)
        if len(rest) > self.ahead:
            yield self._batch([rest])

    def _batch(self, rows: list[Numbers]) -> Batch:
        if self.edges is not None:
            first, last = self.edges
            rows = [np.concatenate([[first], row, [last]]) for row in rows]
        ids = torch.from_numpy(np.stack(rows))
        return {"input_ids": ids, "labels": ids}


@dataclass(frozen=True)
class Pairs:
    """Sources and targets, pairs of like length together; `tokens` per batch of the longer side, padding included."""

    sources: Ids
    targets: Ids
    tokens: int
    pad: int
    start: int | None = None  # what the decoder is fed first, if it is not what the model's config says

    @property
    def per_epoch(self) -> int:
        """Batches of the first epoch; the others have about as many."""
        return len(self.epoch(np.random.default_rng([0, 0])))

    @property
    def lengths(self) -> Numbers:
        """Tokens of the longer side."""
        return np.maximum(self.sources.lengths, self.targets.lengths)

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """See Data."""
        return in_epochs(self, seed, done)

    def epoch(self, rng: np.random.Generator) -> list[Examples]:
        """Every pair once; a pool is drawn at random and then sorted by length."""
        lengths = self.lengths
        pool = max(POOL * self.tokens // max(int(lengths.mean()), 1), 1)
        order = rng.permutation(len(lengths))
        found: list[Examples] = []
        for i in range(0, len(order), pool):
            drawn = order[i : i + pool]
            batches = by_budget(lengths[drawn], self.tokens)
            found += [drawn[batches[j]] for j in rng.permutation(len(batches))]
        return found

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """Padded on the right; the padding of the labels counts nothing."""
        ids, mask = padded([self.sources[int(i)] for i in chosen], self.pad)
        labels, real = padded([self.targets[int(i)] for i in chosen], self.pad)
        found = {"input_ids": ids, "attention_mask": mask, "labels": labels.masked_fill(real == 0, IGNORED)}
        fed = {} if self.start is None else {"decoder_input_ids": shift_right(labels, self.start, self.pad)}
        return {**found, **fed}

    def whole(self) -> Iterator[Batch]:
        """From the shortest to the longest."""
        for chosen in by_budget(self.lengths, self.tokens):
            yield self.batch(chosen)
