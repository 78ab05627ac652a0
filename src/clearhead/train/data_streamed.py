"""Data that is never all at hand: read in slabs, each of which is shuffled and used as if it were all there is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from clearhead.train.data import Examples, Keys, Shelf
from clearhead.train.data_ids import Stored
from clearhead.train.loss import Batch


@dataclass(frozen=True)
class Streamed:
    """slabs: reads the texts once, some thousand rows at a time. shelf: what a slab is trained on as.

    A run that is gone on with reads again from the beginning, and drops the batches that it has had.
    """

    slabs: Callable[[], Iterator[Stored]]
    shelf: Callable[[Stored], Shelf]

    @property
    def per_epoch(self) -> None:
        """Nobody knows."""
        return

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """See Data. An example is a slab's shelf and its example there."""
        number = count()
        while True:
            for slab in self.slabs():
                shelf = self.shelf(slab)
                for chosen in shelf.epoch(np.random.default_rng([seed, next(number)])):
                    if done:
                        done -= 1
                    else:
                        yield [(shelf, example) for example in chosen]

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """See Data."""
        shelf: Shelf = chosen[0][0]
        return shelf.batch([example for _, example in chosen], keys)

    def whole(self) -> Iterator[Batch]:
        """See Data."""
        for slab in self.slabs():
            yield from self.shelf(slab).whole()
