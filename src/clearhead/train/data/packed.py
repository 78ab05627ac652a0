"""Documents side by side: rows without padding in which no document sees another."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clearhead.train.data.batches import Examples, Keys, in_epochs, padded
from clearhead.train.data.ids import Ids, Numbers
from clearhead.train.loss import IGNORED, Batch

POOL = 4096  # pieces that are packed together


@dataclass(frozen=True)
class Packed:
    """Documents, cut into pieces of at most `length` tokens and packed into rows of that length, `size` per batch.

    Positions start again with each piece, by which the model knows that it must not look beyond it.
    begins [N]: the rows of `ids` that begin a document. ahead, edges: see Blocks; the edges go around each piece.
    """

    ids: Ids
    begins: NDArray[np.bool_]
    length: int
    size: int
    pad: int
    ahead: int = 1
    edges: tuple[int, int] | None = None

    @cached_property
    def pieces(self) -> tuple[Numbers, Numbers]:
        """Where each piece begins in the ids, and how many of them it has; one that predicts nothing is left out."""
        first, sizes = self._cut
        return first[sizes > self.ahead], sizes[sizes > self.ahead]

    @property
    def given(self) -> Numbers:
        """The ids that are not predicted: the first of each piece."""
        return np.concatenate([self.ids.span(int(start), self.ahead) for start in self._cut[0]])

    @cached_property
    def _cut(self) -> tuple[Numbers, Numbers]:
        room = self.length - (2 if self.edges else 0)
        starts = self.ids.starts[:-1][self.begins]
        ends = np.append(starts[1:], self.ids.total)
        per = -(-(ends - starts) // room)  # pieces of each document
        nth = np.arange(per.sum()) - np.repeat(np.cumsum(per) - per, per)
        first = np.repeat(starts, per) + nth * room
        return first, np.minimum(np.repeat(ends, per) - first, room)

    @property
    def per_epoch(self) -> int:
        """Batches of the first epoch; the others have about as many."""
        return len(self.epoch(np.random.default_rng([0, 0])))

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """See Data."""
        return in_epochs(self, seed, done)

    def epoch(self, rng: np.random.Generator) -> list[Examples]:
        """Every piece once: drawn at random in pools, packed, and the rows of a pool shuffled."""
        order, rows = rng.permutation(len(self.pieces[0])), list[Numbers]()
        for i in range(0, len(order), POOL):
            packed = self._rows(order[i : i + POOL])
            rows += [packed[j] for j in rng.permutation(len(packed))]
        return [rows[i : i + self.size] for i in range(0, len(rows), self.size)]

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """A row for each list of pieces. The first token of a piece has nothing before it to be predicted from."""
        texts = [[self._piece(int(i)) for i in row] for row in chosen]
        ids, mask = padded([np.concatenate(row) for row in texts], self.pad)
        places = [np.concatenate([np.arange(len(piece)) for piece in row]) for row in texts]
        positions, _ = padded(places, 0)  # padding sees itself alone
        labels = ids.masked_fill(mask == 0, IGNORED)
        if self.ahead:
            labels = labels.masked_fill(positions == 0, IGNORED)
        found = {"input_ids": ids, "positions": positions, "labels": labels}
        return found if bool(mask.all()) else {**found, "attention_mask": mask}

    def whole(self) -> Iterator[Batch]:
        """In the order of the text, packed all the same."""
        rows = self._rows(np.arange(len(self.pieces[0])))
        for i in range(0, len(rows), self.size):
            yield self.batch(rows[i : i + self.size])

    def _piece(self, i: int) -> Numbers:
        starts, sizes = self.pieces
        text = self.ids.span(int(starts[i]), int(sizes[i]))
        return text if self.edges is None else np.concatenate([[self.edges[0]], text, [self.edges[1]]])

    def _rows(self, pieces: Numbers) -> list[Numbers]:
        """Best fit, the longest first: each piece goes where it leaves the least room."""
        sizes = self.pieces[1][pieces] + (2 if self.edges else 0)
        rows, room = list[list[int]](), list[tuple[int, int]]()  # room: (tokens, row), sorted
        for i in np.argsort(-sizes, kind="stable"):
            size = int(sizes[i])
            at = bisect_left(room, (size, -1))
            left, row = room.pop(at) if at < len(room) else (self.length, len(rows))
            if row == len(rows):
                rows.append([])
            rows[row].append(int(pieces[i]))
            insort(room, (left - size, row))
        return [np.array(row) for row in rows]
