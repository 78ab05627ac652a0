"""Rows of ids to tensors, rows of like length into batches, and a text file into lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

Side = Literal["right", "left"]


def pad(rows: Sequence[Sequence[int]], pad: int, side: Side = "right") -> tuple[torch.Tensor, torch.Tensor]:
    """Fill B rows of ids up to the longest, T; give ids and mask, both int64 [B, T], mask 1 = keep.

    Raises ValueError for no rows at all, or another side than "right" and "left".
    """
    if not rows:
        raise ValueError("rows is empty: a batch needs at least one row of ids")
    if side not in ("right", "left"):
        raise ValueError(f'side={side!r}: padding goes to the "right" or to the "left"')
    width = max(len(row) for row in rows)

    def fill(row: list[int], value: int) -> list[int]:
        gap = [value] * (width - len(row))
        return row + gap if side == "right" else gap + row

    ids = [fill(list(row), pad) for row in rows]
    mask = [fill([1] * len(row), 0) for row in rows]
    return torch.tensor(ids, dtype=torch.int64), torch.tensor(mask, dtype=torch.int64)


def length_buckets(lengths: Sequence[int], size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Sort the examples by length, cut into batches of `size` (the last may be short), and shuffle the batches.

    Every index of `lengths` stands in exactly one batch. Examples of like length waste little padding; draw a few
    hundred at random and bucket those, so that the batches still differ from one epoch to the next.
    Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"size={size}: a batch needs at least 1 example")
    order = np.argsort(lengths, kind="stable")
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, split at newlines only, without them; a final newline ends the last line.

    `str.splitlines` also splits at U+2028, NEL, form feed and others that stand inside sentences, after which the two
    sides of a parallel text no longer match. A carriage return before the newline belongs to the line end.
    Raises UnicodeDecodeError (a ValueError) for a file that is not UTF-8.
    """
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        return [line.removesuffix("\n").removesuffix("\r") for line in file]
