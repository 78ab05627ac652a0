"""The weights of an attention in tiles of a few query rows, and what can be told from each tile on its own.

Tiles fit the processor's cache, and leave out keys that causality or a window hides from all of their queries. So a
statistic of all weights takes one pass, about as long as the fused kernel takes, and O(n) memory.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.formulas.attention import Scoring
from clearhead.formulas.position import DistanceBias

TILE = 2**19  # numbers in one tile: 2 MB in float32
HIDDEN = -1e30  # instead of -inf: the difference from a row's maximum stays finite, its exponential is 0


@dataclass(frozen=True)
class Tile:
    """The weights of some rows and heads, not yet divided: weight = e * inverse."""

    heads: slice
    rows: slice
    keys: slice
    shifted: Tensor  # [B H r k] scores minus the maximum of their row
    e: Tensor  # [B H r k] their exponentials
    inverse: Tensor  # [B H r] 1 / sum of e, or 0 where a query sees nothing
    q_positions: Tensor  # [r] or [B 1 r]
    k_positions: Tensor  # [k] or [B 1 k]
    consecutive: bool  # both count up by one
    backward: bool  # no query sees a later key

    @property
    def weights(self) -> Tensor:
        """[B H r k]."""
        return self.e * self.inverse.unsqueeze(-1)

    def apart(self) -> Tensor:
        """By how much each query stands behind each key, [r k] or [B 1 r k]; below 0: before it."""
        return self.q_positions.unsqueeze(-1) - self.k_positions.unsqueeze(-2)

    def mean(self, numbers: Tensor) -> Tensor:
        """The weighted mean of `numbers` (what broadcasts to [B H r k]), [B H r]."""
        return (self.e * numbers).sum(-1) * self.inverse

    def behind(self, steps: int) -> Tensor:
        """The weight on the key that stands so many positions before the query, [B H r]."""
        if not self.consecutive:
            return self.mean(self.apart() == steps)
        place = (self.q_positions - steps - self.k_positions[0]).expand(self.inverse.shape)
        there = (place >= 0) & (place < self.e.shape[-1])
        found = self.e.gather(-1, place.where(there, 0).unsqueeze(-1)).squeeze(-1)
        return found * there * self.inverse

    def largest(self, count: int, keys: int) -> tuple[Tensor, Tensor]:
        """The `count` largest weights of each row and their places among all `keys`, [B H r count]."""
        seen = self.e.shape[-1]
        values, places = largest(self.e, min(count, seen))
        values, places = values * self.inverse.unsqueeze(-1), places + self.keys.start
        if seen >= count:
            return values, places
        outside = [i for i in range(keys) if not self.keys.start <= i < self.keys.stop][: count - seen]  # weight 0
        rest = torch.tensor(outside, device=places.device).expand(*places.shape[:-1], -1)
        return torch.nn.functional.pad(values, (0, count - seen)), torch.cat([places, rest], dim=-1)

    def by_distance(self, farthest: int) -> Tensor:
        """The sum over the queries of the weight 0, 1, ... `farthest` tokens behind them, [B H farthest + 1]."""
        if self.consecutive:
            return torch.stack([self.behind(steps).sum(-1) for steps in range(farthest + 1)], dim=-1)
        apart = self.apart()
        place = apart.where((apart >= 0) & (apart <= farthest), farthest + 1).expand(self.e.shape)
        found = self.e.new_zeros(*self.e.shape[:2], farthest + 2)
        return found.scatter_add_(-1, place.flatten(2), self.weights.flatten(2))[..., :-1]


def entropy(t: Tile) -> Tensor:
    """-sum w log2 w, in bits: log2 of the total minus the mean of the shifted scores."""
    total = t.inverse.where(t.inverse > 0, 1.0).reciprocal()
    return (total.log() - t.mean(t.shifted)).clamp(min=0) / math.log(2)


def maximum(t: Tile) -> Tensor:
    """The largest weight: its e is 1, unless the query sees nothing."""
    return t.inverse


def distance(t: Tile) -> Tensor:
    """Mean distance, in tokens, between a query and what it looks at."""
    if t.backward and t.k_positions.dim() == 1:  # then it is the distance to the mean position
        return t.q_positions * (t.inverse > 0) - t.mean(t.k_positions.to(t.e.dtype))
    return t.mean(t.apart().abs())


def first(t: Tile) -> Tensor:
    """The weight on the first token (the sink of many models)."""
    return t.mean(t.k_positions.unsqueeze(-2) == 0)


# Weight on the first token, on the query's own, on the one before; entropy in bits; mean distance in tokens.
STATISTICS: dict[str, Callable[[Tile], Tensor]] = {
    "entropy": entropy,
    "effective_keys": lambda t: torch.exp2(entropy(t)) * (t.inverse > 0),
    "max": maximum,
    "distance": distance,
    "self": lambda t: t.behind(0),
    "previous": lambda t: t.behind(1),
    "first": first,
}


def tiles(q: Tensor, k: Tensor, scoring: Scoring, budget: int = TILE) -> Iterator[Tile]:
    """All weights of q [B H Q E] and k [B G K E], tile by tile; computed in float32 or wider."""
    wide = torch.promote_types(q.dtype, torch.float32)
    heads, queries, share = q.shape[1], q.shape[2], q.shape[1] // k.shape[1]
    step = max(1, min(queries, 128, budget // max(1, k.shape[2])))
    for top in range(0, queries, step):
        rows = slice(top, min(top + step, queries))
        start, stop, clear = scoring.visible.reach(rows)
        size = (rows.stop - top) * (stop - start) * q.shape[0]
        many = max(1, budget // size // share) * share  # whole groups of heads that share their keys
        for low in range(0, heads, many):
            group = slice(low, min(low + many, heads))
            some = slice(low // share, -(-group.stop // share))
            part = part_of(scoring, slice(None), group)
            scores = part.raw(q[:, group, rows].to(wide), k[:, some, start:stop].to(wide), rows, slice(start, stop))
            seen = part.visible.rows(rows, slice(clear, stop))
            if seen is not None:
                scores[..., clear - start :].masked_fill_(~seen, HIDDEN)
            yield _tile(scores, part, group, rows, slice(start, stop))


def part_of(scoring: Scoring, samples: slice, heads: slice) -> Scoring:
    """The rule for these samples and heads."""

    def cut(given: Tensor | None) -> Tensor | None:
        if given is None or given.dim() < 4:
            return given
        given = given if given.shape[0] == 1 else given[samples]
        return given if given.shape[1] == 1 else given[:, heads]

    visible = scoring.visible
    names = ("q_positions", "k_positions", "q_documents", "k_documents")
    by_sample = {n: p[samples] for n in names if (p := getattr(visible, n)) is not None and p.dim() == 2}
    bias = scoring.bias.only(samples, heads) if isinstance(scoring.bias, DistanceBias) else cut(scoring.bias)
    return replace(scoring, visible=replace(visible, mask=cut(visible.mask), **by_sample), bias=bias)


def _tile(scores: Tensor, scoring: Scoring, heads: slice, rows: slice, keys: slice) -> Tile:
    largest = scores.amax(-1, keepdim=True)
    shifted = scores.sub_(largest)
    e = shifted.exp()
    inverse = e.sum(-1).reciprocal_()
    visible = scoring.visible
    if not visible.complete:
        blind = largest <= HIDDEN  # queries that see nothing
        e.masked_fill_(blind, 0.0)
        inverse.masked_fill_(blind.squeeze(-1), 0.0)
    q, k = visible.q_positions[..., rows], visible.k_positions[..., keys]
    q, k = (p.unsqueeze(1) if p.dim() == 2 else p for p in (q, k))
    return Tile(heads, rows, keys, shifted, e, inverse, q, k, visible.aligned, visible.causal)


def largest(e: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest numbers of each row and where they stand, [..., count].

    A row is folded into columns. The largest numbers stand in the `count` columns with the largest maxima, so most of
    the row need not be sorted.
    """
    height = max(1, round((e.shape[-1] / count) ** 0.5))  # as many columns as numbers in the chosen ones
    columns = e.shape[-1] // height
    whole = columns * height
    if columns < 4 * count:
        values, places = e.topk(count, dim=-1)
        return values, places
    best = e[..., :whole].unflatten(-1, (height, columns)).amax(-2).topk(count, dim=-1).indices  # [... count]
    places = (best.unsqueeze(-1) + columns * torch.arange(height, device=e.device)).flatten(-2)
    rest = torch.arange(whole, e.shape[-1], device=e.device).expand(*places.shape[:-1], -1)
    places = torch.cat([places, rest], dim=-1)
    values, found = e.gather(-1, places).topk(count, dim=-1)
    return values, places.gather(-1, found)
