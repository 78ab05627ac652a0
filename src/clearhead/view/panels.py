"""What a figure shows, as plain arrays: one matrix with its labels, pooled by blocks where it is too large to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.lens.rows import Weights, index
from clearhead.lens.table import Table

SIDE = 1024  # most cells along one side of a picture
ROOM = 2**22  # numbers that are held at once while pooling
PANELS = 24  # most panels of one figure

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Panel:
    """values [rows, columns], drawn where they are not hidden. A cell stands for block[0] x block[1] numbers."""

    title: str
    values: Numbers
    hidden: Flags
    rows: Sequence[str]  # one label for each row before pooling
    columns: Sequence[str]
    axes: tuple[str, str]
    block: tuple[int, int] = (1, 1)
    numbers: bool = False  # whether the cells are few and their numbers wanted

    @property
    def note(self) -> str:
        """What the picture leaves out, or nothing."""
        down, across = self.block
        return "" if self.block == (1, 1) else f"each cell is the mean of {down} x {across}"


def of_head(view: Weights, head: int, sample: int, side: int = SIDE, **said: Any) -> Panel:
    """The weights [Q, K] of one head. They are computed a few rows at a time: there is never an n x n array.

    said: title, queries and keys, by default numbers. Raises IndexError for a head or sample that is not there, and
    ValueError where there are not as many labels as tokens.
    """
    sample, head = index("sample", sample, view.shape[0]), index("head", head, view.shape[1])
    one = view.only(slice(sample, sample + 1), slice(head, head + 1))
    queries, keys = one.shape[2:]
    labels = [_labels(said.get(name), name, count) for name, count in (("queries", queries), ("keys", keys))]
    down, across = -(-queries // side), -(-keys // side)
    step = down * max(1, ROOM // (down * keys))
    parts = [_rows(one, slice(top, min(top + step, queries)), down, across) for top in range(0, queries, step)]
    values, hidden = (np.concatenate(some) for some in zip(*parts, strict=True))
    axes = ("query: is looking", "key: is looked at")
    return Panel(said.get("title") or f"head {head}", values, hidden, labels[0], labels[1], axes, (down, across))


def _rows(one: Any, rows: slice, down: int, across: int) -> tuple[Numbers, Flags]:
    values: Numbers = one.block(rows)[0, 0].detach().double().cpu().numpy()
    seen = one.scoring.visible.rows(rows)
    shown = np.ones(values.shape, bool) if seen is None else seen.expand(1, 1, *values.shape)[0, 0].cpu().numpy()
    return _pooled(values, down, across), _pooled(shown.astype(float), down, across) == 0


def _pooled(values: Numbers, down: int, across: int) -> Numbers:
    """The means of blocks; those at the end hold what is left."""
    if (down, across) == (1, 1):
        return values
    tops, lefts = np.arange(0, len(values), down), np.arange(0, values.shape[1], across)
    sums = np.add.reduceat(np.add.reduceat(values, tops, axis=0), lefts, axis=1)
    heights, widths = (np.diff(starts, append=size) for starts, size in zip((tops, lefts), values.shape, strict=True))
    return sums / (heights[:, None] * widths)


def of_table(table: Table) -> list[Panel]:
    """The panels of a table of two or three axes: of three, one for each place of the shortest axis (or the last).

    What is not a number is not there, and hidden. Raises ValueError for more panels or axes than can be drawn.
    """
    names, values = list(table.axes), table.values.detach().double().cpu().numpy()
    if values.ndim == 2:
        return [_matrix("", values, table, names)]
    if values.ndim != 3:
        raise ValueError(f"the table has {values.ndim} axes ({', '.join(names)}); 1 to 3 can be drawn")
    apart = min(range(3), key=lambda axis: (values.shape[axis], -axis))
    if values.shape[apart] > PANELS:
        raise ValueError(f"{names[apart]} has {values.shape[apart]} places, a figure at most {PANELS} panels; cut it")
    rest = [name for name in names if name != names[apart]]
    return [
        _matrix(f"{names[apart]} {label}", values.take(i, axis=apart), table, rest)
        for i, label in enumerate(table.axes[names[apart]])
    ]


def _matrix(title: str, values: Numbers, table: Table, names: list[str]) -> Panel:
    down, across = (-(-size // SIDE) for size in values.shape)
    there = _pooled((~np.isnan(values)).astype(float), down, across)
    means = _pooled(np.nan_to_num(values, nan=0.0), down, across) / np.where(there > 0, there, 1.0)
    rows, columns = (table.axes[name] for name in names)
    return Panel(title, means, there == 0, rows, columns, (names[0], names[1]), (down, across), values.size <= 400)


def _labels(given: Sequence[str] | None, name: str, count: int) -> Sequence[str]:
    if given is not None and len(given) != count:
        raise ValueError(f"{name} has {len(given)} labels, but there are {count} {name}; give one for each")
    return [str(i) for i in range(count)] if given is None else given
