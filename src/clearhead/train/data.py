"""Files to batches: text in blocks, sentence pairs by length. The last 5 % are kept for validation, never trained on.

What a batch holds follows from the seed and the step alone, so that a run can go on where it was left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.config import TransformerConfig
from clearhead.text.batch import length_buckets, pad, read_lines
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.loss import IGNORED, Batch

VALIDATION = 20  # one part in so many
POOL = 16  # batches of pairs that are sorted by length together


class Data(Protocol):
    """Examples, by their index or their first token."""

    @property
    def per_epoch(self) -> int:
        """Batches."""
        ...

    def epoch(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Which examples each batch of one epoch holds."""
        ...

    def batch(self, chosen: NDArray[np.int64]) -> Batch:
        """The model's arguments and labels for these examples."""
        ...

    def whole(self) -> Iterator[Batch]:
        """Every target token exactly once, in order."""
        ...


class Parts(NamedTuple):
    """What is trained on, and what is kept."""

    train: Data
    validation: Data


def stream(data: Data, seed: int, done: int = 0) -> Iterator[Batch]:
    """Training batches without end, from the one after `done` on; each epoch in an order of its own."""
    first, skipped = divmod(done, data.per_epoch)
    for epoch in count(first):
        chosen = data.epoch(np.random.default_rng([seed, epoch]))
        for examples in chosen[skipped if epoch == first else 0 :]:
            yield data.batch(examples)


@dataclass(frozen=True)
class Blocks:
    """A text's ids [N], read in blocks of `length` tokens to predict, `size` blocks per batch."""

    ids: NDArray[np.int64]
    length: int
    size: int

    @property
    def count(self) -> int:
        """Blocks per epoch: one less than would fit, so that each epoch may cut elsewhere."""
        return max((len(self.ids) - 1) // self.length - 1, 1)

    @property
    def per_epoch(self) -> int:
        """Batches; the last may be short."""
        return -(-self.count // self.size)

    def epoch(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """The first tokens of blocks that do not overlap, in any order."""
        phase = rng.integers(len(self.ids) - self.count * self.length)
        starts = phase + self.length * rng.permutation(self.count)
        return [starts[i : i + self.size] for i in range(0, self.count, self.size)]

    def batch(self, chosen: NDArray[np.int64]) -> Batch:
        """Rows of length + 1: each token but the first is predicted from those before it."""
        ids = torch.from_numpy(self.ids[chosen[:, None] + np.arange(self.length + 1)])
        return {"input_ids": ids, "labels": ids}

    def whole(self) -> Iterator[Batch]:
        """Block after block; the last holds what is left."""
        full = np.arange(0, len(self.ids) - self.length, self.length)
        for i in range(0, len(full), self.size):
            yield self.batch(full[i : i + self.size])
        rest = torch.from_numpy(self.ids[len(full) * self.length :])[None]
        if rest.shape[1] > 1:
            yield {"input_ids": rest, "labels": rest}


@dataclass(frozen=True)
class Pairs:
    """Sources and targets as rows of ids, `size` pairs of like length per batch."""

    sources: Sequence[list[int]]
    targets: Sequence[list[int]]
    size: int
    pad: int

    @property
    def per_epoch(self) -> int:
        """Batches; the last of each pool may be short."""
        pool = self.size * POOL
        full, rest = divmod(len(self.targets), pool)
        return full * POOL + -(-rest // self.size)

    def epoch(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Every pair once; a pool is drawn at random and then sorted by length."""
        order, pool = rng.permutation(len(self.targets)), self.size * POOL
        found: list[NDArray[np.int64]] = []
        for i in range(0, len(order), pool):
            drawn = order[i : i + pool]
            lengths = [max(len(self.sources[j]), len(self.targets[j])) for j in drawn]
            found += [drawn[bucket] for bucket in length_buckets(lengths, self.size, rng)]
        return found

    def batch(self, chosen: NDArray[np.int64]) -> Batch:
        """Padded on the right; the padding of the labels counts nothing."""
        ids, mask = pad([self.sources[i] for i in chosen], self.pad)
        labels, real = pad([self.targets[i] for i in chosen], self.pad)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels.masked_fill(real == 0, IGNORED)}

    def whole(self) -> Iterator[Batch]:
        """In the order of the files."""
        every = np.arange(len(self.targets))
        for i in range(0, len(every), self.size):
            yield self.batch(every[i : i + self.size])


def read_text(path: Path) -> str:
    """A UTF-8 file. Raises ValueError if it is missing, empty or in another encoding."""
    try:
        text = "\n".join(read_lines(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; give a text file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); convert it first") from error
    if not text.strip():
        raise ValueError(f"{path} is empty; give some text")
    return text


def read_pairs(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two files that belong together. Raises ValueError where there are not as many in both."""
    sources, targets = (read_text(path).split("\n") for path in (source, target))
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}; line n of one translates line n of "
            "the other"
        )
    if len(sources) < 2:
        raise ValueError(f"{source} has 1 line; training and validation need at least 2")
    return sources, targets


def cut(length: int) -> int:
    """How many of so many examples are trained on."""
    return length - max(length // VALIDATION, 1)


def blocks(text: str, tokenizer: Tokenizer | Pair, config: TransformerConfig, length: int, size: int) -> Parts:
    """A text to train on, in blocks of `length` or of what the model has positions for, and one to validate on.

    Raises ValueError for a text that does not fill one block, and for ids that the model does not have.
    """
    assert config.decoder is not None
    table, at = config.decoder.positions, cut(len(text))
    length = length if table is None or table.count is None else min(length, table.count - 1)
    ids = [np.array(tokenizer.encode(t, add_special_tokens=False) if t else []) for t in (text[:at], text[at:])]
    for name, part, least in zip(("train", "validate"), ids, (length + 1, 2), strict=True):
        if len(part) < least:
            raise ValueError(f"the text to {name} on has {len(part)} tokens, but needs {least}; give a longer text")
        _check_ids(int(part.max()), config.decoder.vocab)
    return Parts(*(Blocks(part, length, size) for part in ids))


def pairs(
    sources: list[str], targets: list[str], tokenizer: Tokenizer | Pair, config: TransformerConfig, size: int
) -> Parts:
    """Pairs of texts to train on, and to validate on.

    A target ends in eos, and does not begin with what the decoder is fed first. Raises ValueError for a text longer
    than the model's positions, naming its line, and for ids that the model does not have.
    """
    first, eos = config.first, tokenizer.eos
    if config.encoder is None or config.decoder is None or config.pad is None or first is None:
        raise ValueError("the model has no encoder, decoder, pad or start token; a translator needs all of them")
    read = [tokenizer.encode(text) for text in sources]
    written = [tokenizer.encode(text, target=True) for text in targets]
    written = [row[1:] if row[0] == first else row for row in written]
    written = [row if eos is None or row[-1:] == [eos] else [*row, eos] for row in written]
    for stack, rows in ((config.encoder, read), (config.decoder, written)):
        limit = None if stack.positions is None else stack.positions.count
        longest = max(range(len(rows)), key=lambda i: len(rows[i]))
        if limit is not None and len(rows[longest]) > limit:
            raise ValueError(
                f"line {longest + 1} has {len(rows[longest])} tokens, but the model has {limit} positions; shorten it"
            )
        _check_ids(max(max(row, default=0) for row in rows), stack.vocab)
    at = cut(len(read))
    return Parts(Pairs(read[:at], written[:at], size, config.pad), Pairs(read[at:], written[at:], size, config.pad))


def _check_ids(largest: int, vocab: int) -> None:
    if largest >= vocab:
        raise ValueError(
            f"the data holds the id {largest}, but the model has {vocab}, from 0; its tokenizer does not belong to it"
        )
