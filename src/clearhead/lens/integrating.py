"""Integrated gradients: a sum of gradients on the straight way from a baseline, as fine as it must be."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from clearhead.lens.progress import steps as one_by_one

Rows = dict[str, Tensor]  # by stack, what enters it
ROOM = 2048  # tokens that are run at a time
NODES = 8  # places on one piece of the way
HALVINGS = 30  # at most, of a piece
PIECES = 512  # at most, after which those that are left count as they are
SHARE = 0.005  # by how much of the whole difference the sum may miss


class Asked(Protocol):
    """One logit, as a function of what enters the stacks."""

    def __call__(self, rows: Rows) -> Tensor: ...
    def gradients(self, rows: Rows) -> Rows: ...


def integrated(asked: Asked, rows: Rows, blank: Rows, steps: int, progress: bool = True) -> Tensor:
    """What each token is worth, [T] of all stacks: (row - blank) times the mean gradient between them.

    The way is cut into pieces of 8 places each (Gauss-Legendre), `steps` places in all. On each piece the sum must be
    what the logit changes by, which is known. Where it is not, as where the norm of a small residual turns fast, the
    piece is cut in two.
    """
    edges = torch.linspace(0, 1, max(1, steps // NODES) + 1, dtype=torch.float64)
    pieces = torch.stack([edges[:-1], edges[1:]], dim=1)  # [N 2] beginning and end
    ends = asked(_at(edges[[0, -1]], rows, blank))
    rounding = 8 * torch.finfo(ends.dtype).eps * float(ends.abs().max())
    allowed = SHARE * float((ends[1] - ends[0]).abs())
    total = torch.zeros(sum(len(row) for row in rows.values()), dtype=torch.float64)
    done = 0
    for halving in range(HALVINGS + 1):
        found, width = _pieces(asked, rows, blank, pieces, progress), pieces[:, 1] - pieces[:, 0]
        missed = (found.sum(1) - _scores(asked, rows, blank, pieces)).abs()
        done += len(pieces)
        fine = (missed <= allowed * width.clamp(min=1 / 64) + rounding) | (halving == HALVINGS) | (done > PIECES)
        total += found[fine].sum(0)
        if fine.all():
            break
        begin, end = pieces[~fine].unbind(1)
        middle = (begin + end) / 2
        pieces = torch.cat([torch.stack([begin, middle], 1), torch.stack([middle, end], 1)])
    return total


def _pieces(asked: Asked, rows: Rows, blank: Rows, pieces: Tensor, progress: bool) -> Tensor:
    """What each token is worth on each piece, [N, T of all stacks]."""
    nodes, weights = (torch.tensor(x, dtype=torch.float64) for x in np.polynomial.legendre.leggauss(NODES))
    half = (pieces[:, 1:] - pieces[:, :1]) / 2
    way = (pieces[:, :1] + half * (nodes + 1)).flatten()
    share = (half * weights).flatten()
    found: list[Tensor] = []
    for part in one_by_one("integrated gradients", parts(len(way), rows), progress):
        gradients = asked.gradients(_at(way[part.start : part.stop], rows, blank))
        worth = [(gradients[name] * (row - blank[name])).sum(-1) for name, row in rows.items()]
        found.append(torch.cat(worth, dim=1).double().cpu() * share[part.start : part.stop, None])
    return torch.cat(found).unflatten(0, (-1, NODES)).sum(1)


def _scores(asked: Asked, rows: Rows, blank: Rows, pieces: Tensor) -> Tensor:
    """By how much the logit changes on each piece, [N]."""
    ends, place = pieces.unique(return_inverse=True)
    found = [asked(_at(ends[part.start : part.stop], rows, blank)).double().cpu() for part in parts(len(ends), rows)]
    return torch.cat(found)[place].diff(dim=1)[:, 0]


def _at(way: Tensor, rows: Rows, blank: Rows) -> Rows:
    """What enters the stacks at each place on the way, [N, T, D]."""
    return {name: torch.lerp(blank[name], row, way[:, None, None].to(row)) for name, row in rows.items()}


def parts(count: int, rows: Rows) -> list[range]:
    """`count` versions in as many at a time as there is room for."""
    step = max(1, ROOM // sum(len(row) for row in rows.values()))
    return [range(start, min(start + step, count)) for start in range(0, count, step)]
