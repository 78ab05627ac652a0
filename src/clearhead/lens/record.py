"""Record what a model computes, without changing a bit of it.

Weights and scores are not stored: the queries and keys that enter the product are, and the formula. Any row, head or
block is computed from them when it is asked for, so that a recording takes O(n) memory.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import Tensor

from clearhead.formulas.attention import Scoring
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap, sites

T = TypeVar("T")


class Weights:
    """The weights (or scores) [B, H, Q, K] of one attention, computed when they are asked for."""

    def __init__(self, q: Tensor, k: Tensor, formula: Callable[[Tensor, Tensor, slice], Tensor]):
        self.q, self.k, self.formula = q, k, formula

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K)."""
        return self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2]

    def dense(self) -> Tensor:
        """All of them, [B, H, Q, K]."""
        return self.formula(self.q, self.k, slice(None))

    def row(self, query: int) -> Tensor:
        """What one query attends to, [B, H, K]. Raises IndexError if there is no such query."""
        count = self.q.shape[2]
        if not -count <= query < count:
            raise IndexError(f"query {query} of {count}; use 0 to {count - 1}")
        query %= count
        return self.formula(self.q, self.k, slice(query, query + 1))[:, :, 0]

    def __getitem__(self, place: tuple[int, int, int]) -> Tensor:
        """weights[sample, head, query] is one row, [K]."""
        sample, head, query = place
        return self.row(query)[sample, head]


Recorded = Tensor | Weights


class Seen(Mapping[str, Recorded]):
    """What was recorded, by full address: the last call's. `calls[t]` holds those of call t."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Recorded]] = []

    def keep(self, address: str, value: Recorded) -> None:
        """Store; an address that comes round again begins a new call."""
        if not self.calls or address in self.calls[-1]:
            self.calls.append({})
        self.calls[-1][address] = value

    def __getitem__(self, address: str) -> Recorded:
        for call in reversed(self.calls):
            if address in call:
                return call[address]
        raise KeyError(f"{address} was not recorded; recorded are {', '.join(self) or 'none: run the model first'}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(address for call in self.calls for address in call))

    def __len__(self) -> int:
        return len(list(iter(self)))


class Recorder(Tap):
    """Keeps what passes at the wanted addresses; what it hears first goes to the tap that was there before."""

    def __init__(self, seen: Seen, wanted: frozenset[str], before: Tap, address: str = ""):
        self.seen, self.wanted, self.before, self.address = seen, wanted, before, address

    def at(self, name: str) -> Tap:
        return Recorder(self.seen, self.wanted, self.before.at(name), f"{self.address}{name}.")

    def __call__(self, site: str, value: T) -> T:
        value = self.before(site, value)
        if f"{self.address}{site}" in self.wanted and isinstance(value, Tensor):
            self.seen.keep(f"{self.address}{site}", value.detach())
        return value

    def opens(self) -> bool:
        return self.before.opens()

    def product(self, q: Tensor, k: Tensor, weigh: Scoring) -> None:
        self.before.product(q, k, weigh)
        if self.opens():  # then they pass by themselves, changed
            return
        for site, formula in (("scores", weigh.scores), ("weights", weigh.weights)):
            if f"{self.address}{site}" in self.wanted:
                self.seen.keep(f"{self.address}{site}", Weights(q.detach(), k.detach(), formula))


@contextmanager
def record(model: Transformer, wanted: Sequence[str]) -> Generator[Seen]:
    """Within the block, whatever runs the model is recorded at these addresses (globs; `*` crosses dots).

    Raises ValueError for a pattern that matches no address of the model, before anything runs.
    """
    known = sites(model.config)
    chosen: set[str] = set()
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        matched = [site for site in known if fnmatchcase(site, pattern)]
        if not matched:
            raise ValueError(f"no address matches {pattern!r}; see clearhead.sites(model.config), such as {known[1]}")
        chosen.update(matched)
    seen, before = Seen(), model.tap
    model.tap = Recorder(seen, frozenset(chosen), before)
    try:
        yield seen
    finally:
        model.tap = before
