"""Gaps to fill: some tokens are hidden, other ones every time, and the model is asked what stood there."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.train.data.batches import Examples, Keys, Shelf, in_epochs
from clearhead.train.loss import IGNORED, Batch

SHARE = 0.15  # of the tokens are asked for; of these 80 % are hidden, 10 % replaced, 10 % left (Devlin et al. 2019)


@dataclass(frozen=True)
class Corrupted(ABC):
    """Another data's rows, changed by what is drawn from the seed, the batch's number and the row alone."""

    inner: Shelf

    @property
    def per_epoch(self) -> int | None:
        """See Data."""
        return self.inner.per_epoch

    def plans(self, seed: int, done: int) -> Iterator[Examples]:
        """See Data."""
        return in_epochs(self, seed, done)

    def epoch(self, rng: np.random.Generator) -> list[Examples]:
        """See Shelf."""
        return self.inner.epoch(rng)

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """The model's arguments and labels: what is left of each row, and what is asked for."""
        return self._corrupted(self.inner.batch(chosen), keys or [(0, i) for i in range(len(chosen))])

    def whole(self) -> Iterator[Batch]:
        """Every token is read once; what is drawn is the same each time."""
        for number, batch in enumerate(self.inner.whole()):
            yield self._corrupted(batch, [(0, number, i) for i in range(len(batch["labels"]))])

    @abstractmethod
    def _corrupted(self, batch: Batch, keys: Keys) -> Batch:
        """keys [B]: what chance may depend on in each row."""


@dataclass(frozen=True)
class Masked(Corrupted):
    """Gaps; labels are -100 where nothing is asked.

    words: the ids that may be hidden, and that may stand for another.
    """

    mask: int
    words: NDArray[np.int64]

    def _corrupted(self, batch: Batch, keys: Keys) -> Batch:
        given = batch["input_ids"].numpy()
        ids, labels = given.copy(), np.full_like(given, IGNORED)
        may = np.isin(given, self.words) & (batch["labels"].numpy() != IGNORED)
        for row, key in enumerate(keys):
            rng = np.random.default_rng(key)
            open_to = np.flatnonzero(may[row])
            if not len(open_to):
                continue
            drawn = rng.random(len(open_to))
            places = open_to[drawn < max(SHARE, float(drawn.min()) * (1 + 1e-9))]  # one at least
            labels[row, places] = given[row, places]
            fate = rng.random(len(places))
            others = rng.choice(self.words, len(places))
            ids[row, places] = np.where(fate < 0.8, self.mask, np.where(fate < 0.9, others, given[row, places]))
        return {**batch, "input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}
