"""Data that is never all at hand: read in slabs, each of which is shuffled and used as if it were all there is.

A slab follows from the place where it begins, so that a run that is gone on with reads on from there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from clearhead.train.data.batches import Data, Examples, Keys, Shelf
from clearhead.train.data.files import Part, Rows
from clearhead.train.data.ids import Ids, Stored
from clearhead.train.data.rows import Row
from clearhead.train.data.tokens import Reading
from clearhead.train.loss import Batch


class Place(NamedTuple):
    """Between two rows of what is read."""

    rows: int = 0  # before it
    state: dict[str, Any] | None = None  # of a data set of the hub, which can go on at once; files are read over


class Mark(NamedTuple):
    """Where a slab begins, in numbers that JSON knows."""

    slab: int = 0  # those before it, over all times that the texts were read
    batches: int = 0  # those before it
    place: Place = Place()


START = Mark()


class Cursor:
    """Rows from a place on; `place` is where they have been read to."""

    def __init__(self, rows: Rows, place: Place) -> None:
        self._count = place.rows
        if rows.resume is not None:
            self._rows, self._state = rows.resume(place.state)
        else:
            self._rows, self._state = islice(rows.read(), place.rows, None), lambda: None

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self._count += 1
            yield row

    @property
    def place(self) -> Place:
        """Behind the row that came last."""
        return Place(self._count, self._state())


Slabs = Callable[[Place], Iterator[tuple[Place, Stored]]]


def slabs(read: Reading, part: Part, tokens: int) -> Slabs:
    """The ids of a part in memory, at least so many tokens at a time; less than that at the end is left out.

    Each with the place where it begins. The first is that of the part, or where it was left.
    """

    def run(place: Place) -> Iterator[tuple[Place, Stored]]:
        cursor = Cursor(part.rows, place)
        rows = replace(part.rows, read=lambda: iter(cursor))
        held, size, enough = list[Stored](), 0, False
        for group in read(Part(rows, passed=place.rows) if place.rows else replace(part, rows=rows)):
            held.append(group)
            size += group.columns[read.names[0]].total
            if size >= tokens:
                yield place, _joined(held, read.names)
                held, size, enough, place = [], 0, True, cursor.place
        if held and not enough:  # a stream that is shorter than that
            yield place, _joined(held, read.names)

    return run


def _joined(groups: list[Stored], names: tuple[str, ...]) -> Stored:
    columns = {
        name: Ids.of([ids[i] for g in groups for ids in [g.columns[name]] for i in range(len(ids))]) for name in names
    }
    begins, sizes = (np.concatenate([getattr(g, name) for g in groups]) for name in ("begins", "text_bytes"))
    begins[:1] = True  # what a text goes on from is in another slab
    return Stored(columns, begins, sizes)


@dataclass
class Streamed:
    """slabs: reads the texts once, some thousand rows at a time. shelf: what a slab is trained on as.

    begin: the mark to go on from; the batches after it that are done are made ready once more, and dropped. mark: that
    of the slab which the last batch came from.
    """

    slabs: Slabs
    shelf: Callable[[Stored], Shelf]
    begin: Mark = START
    mark: Mark = START

    @property
    def per_epoch(self) -> None:
        """Nobody knows."""
        return

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """See Data. An example is a slab's shelf and its example there."""
        number, batches, start = self.begin
        while True:
            for place, slab in self.slabs(start):
                self.mark = Mark(number, batches, place)
                shelf = self.shelf(slab)
                for chosen in shelf.epoch(np.random.default_rng([seed, number])):
                    batches += 1
                    if batches > done:
                        yield [(shelf, example) for example in chosen]
                number += 1
            start = START.place

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """See Data."""
        shelf: Shelf = chosen[0][0]
        return shelf.batch([example for _, example in chosen], keys)

    def whole(self) -> Iterator[Batch]:
        """See Data."""
        for _, slab in self.slabs(START.place):
            yield from self.shelf(slab).whole()


def mark_of(data: Data) -> Mark | None:
    """Of a stream, for a checkpoint."""
    return data.mark if isinstance(data, Streamed) else None


def go_on(data: Data, mark: tuple[int, int, tuple[int, Any]] | None) -> None:
    """A stream begins at the mark of a checkpoint; other data is at hand from anywhere."""
    if isinstance(data, Streamed) and mark is not None:
        slab, batches, place = mark
        data.begin = Mark(slab, batches, Place(*place))
