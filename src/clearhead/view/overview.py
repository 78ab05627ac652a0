"""All heads at a glance: a small picture of each, its numbers, and a name for its pattern.

A short text is gone through at once. Of a long one a few queries are looked at first; then every query, a little more
with each question, until all is exact.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clearhead.lens.finding import FOUND
from clearhead.lens.rows import Weights
from clearhead.lens.tiles import STATISTICS, Tile, part_of
from clearhead.view.pooling import Grid, codes, sampled, step_of
from clearhead.view.reading import Part

THUMB = 32  # most cells along one side of a small picture
AT_ONCE = 2**26  # weights of all heads together that are gone through in the first answer
FIRST, SLICE = 1.0, 0.1  # seconds that the first answer about a long text takes, and each later one
EVEN = 0.8  # of the entropy of an even spread, from which a head counts as diffuse

PATTERNS = {
    "previous": "previous token",
    "induction": "induction",
    "duplicate": "duplicate token",
    "sink": "first token (sink)",
    "self": "itself",
    "alignment": "alignment",
    "diffuse": "diffuse",
    "mixed": "mixed",
    "unknown": "not looked at yet",
}
SHAPE = ("entropy", "effective_keys", "max", "distance")  # means over all queries
AROUND = ("previous", "induction", "duplicate", "sink", "self")  # what self-attention is named after
ACROSS = ("sink", "alignment")


@dataclass
class Gathered:
    """The sums of one layer's heads over the queries seen so far."""

    grid: Grid
    sums: dict[str, Tensor] = field(default_factory=dict[str, Tensor])  # [H] each
    counts: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, heads: slice, values: Tensor, counted: Tensor | None = None) -> None:
        """values [1 H r], of the queries `counted` [r]."""
        chosen = values[0].cpu().double()
        chosen = chosen if counted is None else chosen * counted
        total = self.sums.setdefault(name, torch.zeros(self.grid.cells.shape[0], dtype=torch.float64))
        total[heads] += chosen.sum(-1)
        if heads.start == 0:
            count = chosen.shape[-1] if counted is None else float(counted.sum())
            self.counts[name] = self.counts.get(name, 0.0) + count

    def mean(self, name: str) -> list[float | None]:
        """One number per head; None where no query counts, or for what is no number."""
        if not self.counts.get(name):
            return [None] * self.grid.cells.shape[0]
        return [x if math.isfinite(x) else None for x in (self.sums[name] / self.counts[name]).tolist()]


class Overview:
    """The heads of one part of a reading."""

    def __init__(self, part: Part) -> None:
        self.part, self.lock = part, threading.Lock()
        self.names = (*SHAPE, *AROUND) if part.name != "cross" else (*SHAPE[:3], *ACROSS)
        self.layers = [Gathered(Grid(view, *(step_of(size, THUMB) for size in view.shape[2:]))) for view in part.layers]
        self.exact, self.rows = 0, 0  # layers, and rows of heads, that have been gone through
        self.long = sum(math.prod(view.shape) for view in part.layers) > AT_ONCE
        self._repeats = None if part.name == "cross" or part.ids is None else _came_before(part.ids)
        self._steps = self._run()

    @property
    def done(self) -> bool:
        return self.exact == len(self.part.layers)

    @property
    def progress(self) -> float:
        """The share of all rows that has been gone through, 0 to 1."""
        return self.rows / sum(view.shape[1] * view.shape[2] for view in self.part.layers)

    def more(self, going: Callable[[], None]) -> None:
        """Go on until everything is known, of a long text for SLICE seconds, the first time for FIRST."""
        with self.lock:
            end = time.monotonic() + (SLICE if self.rows else FIRST)
            for _ in self._steps:
                going()
                if self.long and time.monotonic() > end:
                    return

    def patterns(self) -> list[list[str]]:
        """The name of each head's pattern, by layer."""
        return [self._named(layer) for layer in self.layers]

    def statistics(self) -> dict[str, list[list[float | None]]]:
        """By name, one number per head, by layer."""
        return {name: [layer.mean(name) for layer in self.layers] for name in self.names}

    def thumbs(self) -> bytes:
        """Codes of all heads' small pictures, layer by layer."""
        return b"".join(codes(layer.grid.cells).numpy().tobytes() for layer in self.layers)

    def _run(self) -> Iterator[None]:
        """Yields after every tile. A layer's numbers are replaced when better ones are complete."""
        for i, view in enumerate(self.part.layers if self.long else []):
            step = step_of(view.shape[2], THUMB)
            found = Gathered(Grid(sampled(view, step), 1, step_of(view.shape[3], THUMB)))
            for _ in self._gather(found, step):
                yield
            self.layers[i] = found
        for i, view in enumerate(self.part.layers):
            found = Gathered(Grid(view, *(step_of(size, THUMB) for size in view.shape[2:])))
            for tile in self._gather(found, 1):
                self.rows += tile.inverse[0].numel()
                yield
            self.layers[i], self.exact = found, i + 1

    def _gather(self, found: Gathered, step: int) -> Iterator[Tile]:
        view = found.grid.view
        for tile in view.tiles():
            found.grid.add(tile)
            for name in SHAPE:
                found.add(name, tile.heads, STATISTICS[name](tile))
            found.add("room", tile.heads, _room(view, tile))
            if self.part.name == "cross":
                self._across(found, tile, step)
            else:
                self._around(found, tile, step)
            yield tile

    def _around(self, found: Gathered, tile: Tile, step: int) -> None:
        later = tile.q_positions.reshape(-1, tile.q_positions.shape[-1])[0].cpu() > 0
        for name, statistic in (("previous", "previous"), ("self", "self"), ("sink", "first")):
            found.add(name, tile.heads, STATISTICS[statistic](tile), later)
        if self.part.ids is None or self._repeats is None:
            return
        ids = self.part.ids.to(tile.e.device)
        own, again = (given[::step][tile.rows] for given in (ids, self._repeats))
        for name, marks in (("duplicate", ids), ("induction", torch.nn.functional.pad(ids[:-1], (1, 0), value=-1))):
            same = (own[:, None] == marks[None, tile.keys]) & (tile.apart() > 0)
            found.add(name, tile.heads, tile.mean(same), again & later)

    def _across(self, found: Gathered, tile: Tile, step: int) -> None:
        """Along the diagonal: within one token of the query's place, the texts being stretched to one length."""
        queries, keys = len(self.part.queries), len(self.part.keys)
        places = torch.arange(queries, device=tile.e.device)[::step][tile.rows] * (keys / queries)
        near = (torch.arange(keys, device=tile.e.device)[tile.keys] - places[:, None]).abs() <= 1
        found.add("alignment", tile.heads, tile.mean(near))
        found.add("sink", tile.heads, STATISTICS["first"](tile))

    def _named(self, layer: Gathered) -> list[str]:
        kinds = ACROSS if self.part.name == "cross" else AROUND
        scores = {kind: layer.mean(kind) for kind in kinds}
        spread = zip(layer.mean("entropy"), layer.mean("room"), strict=True)
        return [_name({kind: scores[kind][h] or 0.0 for kind in kinds}, *of) for h, of in enumerate(spread)]


def _name(scores: dict[str, float], entropy: float | None, room: float | None) -> str:
    """A head is named after what holds most of its weight, if that is much."""
    best = max(scores, key=lambda kind: scores[kind])
    if scores[best] >= FOUND:
        return best
    if entropy is None or room is None:
        return "unknown"
    return "diffuse" if room and entropy >= EVEN * room else "mixed"


def _room(view: Weights, tile: Tile) -> Tensor:
    """[1 H r]: the entropy, in bits, of an even spread over all keys that a query may see."""
    seen = part_of(view.scoring, slice(None), tile.heads).visible.rows(tile.rows, tile.keys)
    count = tile.e.shape[-1] if seen is None else seen.sum(-1)
    return torch.as_tensor(count, device=tile.e.device).clamp(min=1).log2().expand(tile.inverse.shape)


def _came_before(ids: Tensor) -> Tensor:
    """[T]: whether the token has an earlier occurrence."""
    known, found = set[int](), list[bool]()
    for i in ids.tolist():
        found.append(i in known)
        known.add(i)
    return torch.tensor(found)
