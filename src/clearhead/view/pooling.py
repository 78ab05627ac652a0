"""Pictures of weights that are too many to show: the largest weight of every bin of queries and keys, in O(n) memory.

Either every query is looked at (pooled), or every so many-th one, exactly (sampled); keys are always pooled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from clearhead.formulas.attention import Scoring
from clearhead.formulas.position import DistanceBias
from clearhead.lens.rows import Weights, Written
from clearhead.lens.tiles import Tile, part_of

SIDE = 512  # most cells along one side of a picture
HIDDEN = -1.0  # in the place of a weight: the query may not see this key


class Picture(NamedTuple):
    """One head, at most SIDE x SIDE cells."""

    codes: Tensor  # [rows columns] uint8, see `codes`
    row_step: int  # queries that one row stands for
    column_step: int  # keys that one column stands for
    sampled: bool  # a row is its first query, exactly, and not the largest of them all


class Grid:
    """The largest weight of every bin, for all heads of a view, gathered tile by tile; HIDDEN where none is visible."""

    def __init__(self, view: Weights, row_step: int, column_step: int) -> None:
        _, heads, queries, keys = view.shape
        self.view, self.row_step, self.column_step = view, row_step, column_step
        self.cells = torch.full((heads, -(-queries // row_step), -(-keys // column_step)), HIDDEN)

    def add(self, tile: Tile) -> None:
        """Raise the cells of a tile's rows, heads and keys to its weights."""
        values = visible(self.view, tile)[0].float().cpu()
        values = _pooled(values, tile.keys.start, self.column_step)
        values = _pooled(values.mT, tile.rows.start, self.row_step).mT
        top, left = tile.rows.start // self.row_step, tile.keys.start // self.column_step
        here = self.cells[tile.heads, top : top + values.shape[1], left : left + values.shape[2]]
        torch.maximum(here, values, out=here)


def visible(view: Weights, tile: Tile) -> Tensor:
    """The weights of a tile [B H r k], with HIDDEN for the keys that a query may not see."""
    seen = part_of(view.scoring, slice(None), tile.heads).visible.rows(tile.rows, tile.keys)
    return tile.weights if seen is None else tile.weights.masked_fill(~seen, HIDDEN)


def row(view: Weights, head: int, query: int) -> Tensor:
    """What one query of a head attends to, [K] float32, exactly, with HIDDEN for the keys that it may not see."""
    return block(view, head, slice(query, query + 1))[0]


def block(view: Weights, head: int, rows: slice) -> Tensor:
    """Some queries of a head, [r K] float32, as `row`."""
    one = view.only(slice(0, 1), slice(head, head + 1))
    seen, values = one.scoring.visible.rows(rows), one.block(rows)
    return (values if seen is None else values.masked_fill(~seen, HIDDEN))[0, 0].float().cpu()


def picture(view: Weights, head: int, pooled: bool, going: Callable[[], None]) -> Picture:
    """One head of sample 0. `going` is called between tiles, to stop by an exception."""
    one = view.only(slice(0, 1), slice(head, head + 1))
    assert isinstance(one, Weights)
    row_step, column_step = (step_of(size, SIDE) for size in one.shape[2:])
    sampling = row_step > 1 and not pooled
    grid = Grid(sampled(one, row_step), 1, column_step) if sampling else Grid(one, row_step, column_step)
    for tile in grid.view.tiles():
        going()
        grid.add(tile)
    return Picture(codes(grid.cells[0]), row_step, column_step, sampling)


def step_of(size: int, side: int) -> int:
    """How many share a cell if at most `side` cells stand in a row."""
    return max(1, -(-size // side))


def sampled(view: Weights, step: int) -> Weights:
    """The view of every so many-th query: 0, step, 2 step ..."""
    some = slice(None, None, step)
    scoring = _of_rows(view.scoring, some)
    if isinstance(view, Written):
        return Written(view.weights[:, :, some], scoring, view.site)
    return Weights(view.q[:, :, some], view.k, scoring)


def _of_rows(scoring: Scoring, rows: slice) -> Scoring:
    visible, bias = scoring.visible, scoring.bias
    documents = None if visible.q_documents is None else visible.q_documents[..., rows]
    kept = {"q_positions": visible.q_positions[..., rows], "q_documents": documents, "mask": _cut(visible.mask, rows)}
    if isinstance(bias, DistanceBias):
        bias = replace(bias, q_positions=bias.q_positions[..., rows])
    else:
        bias = _cut(bias, rows)
    return replace(scoring, visible=replace(visible, **kept, aligned=False, seeing=False), bias=bias)


def _cut(given: Tensor | None, rows: slice) -> Tensor | None:
    return given if given is None or given.shape[-2] == 1 else given[..., rows, :]


def _pooled(values: Tensor, first: int, step: int) -> Tensor:
    """The largest of each bin of the last axis, whose first number stands at place `first` of all; bins begin at 0."""
    if step == 1:
        return values
    before = first % step
    after = -(before + values.shape[-1]) % step
    return F.pad(values, (before, after), value=HIDDEN).unflatten(-1, (-1, step)).amax(-1)


def codes(weights: Tensor) -> Tensor:
    """One byte for each weight p: 0 = hidden (below 0), 1 to 254 = 1 + round(253 sqrt p), 255 = not a number."""
    wide = weights.float()
    known = 1 + (253 * wide.clamp(0, 1).sqrt()).round()
    return known.where(wide >= 0, 0).where(~wide.isnan(), 255).to(torch.uint8)


def decoded(codes: Tensor) -> Tensor:
    """The weights that codes stand for, float64, hidden ones at HIDDEN."""
    wide = codes.double()
    weights = ((wide - 1) / 253).square().where(wide > 0, HIDDEN)
    return weights.where(wide < 255, torch.nan)
