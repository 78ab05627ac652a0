"""The weights of one attention, exactly: any row, any block, any statistic, at any length, in O(n) memory.

Nothing has been stored but queries, keys and the rule. Every number is computed when it is asked for, with the formula
that the model used.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from clearhead.formulas.attention import Scoring, by_group
from clearhead.lens.tiles import HIDDEN, STATISTICS, Tile, part_of, tiles

DENSE = 2**30  # bytes that `dense` may take unless another limit is given


class Scores:
    """The scores [B, H, Q, K] of one attention, hidden keys at -inf, computed when they are asked for."""

    def __init__(self, q: Tensor, k: Tensor, scoring: Scoring) -> None:
        """q [B, H, Q, E]; k [B, G, K, E]: all the keys that the queries saw."""
        self.q, self.k, self.scoring = q, k, scoring

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K)."""
        return self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2]

    def block(self, rows: slice) -> Tensor:
        """Some query rows, [B, H, rows, K]."""
        return self.scoring.scores(self.q, self.k, rows)

    def dense(self, limit: int = DENSE) -> Tensor:
        """All of them, [B, H, Q, K]. Raises ValueError, with both numbers, if that takes more than `limit` bytes."""
        batch, heads, queries, keys = self.shape
        needed = batch * heads * queries * keys * self.q.element_size()
        if needed > limit:
            raise ValueError(
                f"all weights {list(self.shape)} take {needed:,} bytes, the limit is {limit:,}; "
                "ask for rows or statistics, or for dense(limit=...)"
            )
        return self.block(slice(None))

    def row(self, query: int) -> Tensor:
        """What one query attends to, [B, H, K]. Raises IndexError if there is no such query."""
        query = index("query", query, self.shape[2])
        return self.block(slice(query, query + 1))[:, :, 0]

    def __getitem__(self, place: tuple[int, int, int]) -> Tensor:
        """view[sample, head, query]: one row, [K]; nothing else is computed."""
        names = zip(("sample", "head", "query"), place, self.shape[:3], strict=True)
        sample, head, query = (index(name, i, count) for name, i, count in names)
        return self.only(slice(sample, sample + 1), slice(head, head + 1)).row(query)[0, 0]

    def only(self, samples: slice = slice(None), heads: slice = slice(None)) -> Scores:
        """The view of these samples and heads."""
        return type(self)(*self._cut(samples, heads))

    def _cut(self, samples: slice, heads: slice) -> tuple[Tensor, Tensor, Scoring]:
        share = self.q.shape[1] // self.k.shape[1]
        groups = [head // share for head in range(self.q.shape[1])[heads]]
        return self.q[samples, heads], self.k[samples][:, groups], part_of(self.scoring, samples, heads)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(batch {self.shape[0]}, heads {self.shape[1]}, queries {self.shape[2]}, keys {self.shape[3]})"


class Weights(Scores):
    """The weights [B, H, Q, K] of one attention: each row sums to 1, or to 0 if its query sees nothing."""

    def block(self, rows: slice) -> Tensor:
        return self.scoring.weights(self.q, self.k, rows)

    def tiles(self) -> Iterator[Tile]:
        """All weights, a few rows at a time."""
        return tiles(self.q, self.k, self.scoring)

    def measure(self, *names: str, top: int = 0) -> dict[str, Tensor]:
        """Several statistics of each row in one pass, each [B, H, Q], float32 or wider; by default all.

        entropy (bits), effective_keys (2 to the entropy), max, distance (mean, in tokens), and the weight on the
        query's own token (self), on the one before (previous), on the first (first). top: how many of the largest
        weights of each row, as `top` and their keys as `top_keys`, [B, H, Q, top]. Raises ValueError for another name,
        and for more than K.
        """
        for name in names:
            if name not in STATISTICS:
                raise ValueError(f"there is no statistic {name!r}; there are {', '.join(STATISTICS)}")
        if not 0 <= top <= self.shape[3]:
            raise ValueError(f"top({top}): there are {self.shape[3]} keys; ask for 1 to {self.shape[3]}")
        return self._in_one_pass(names or tuple(STATISTICS), top)

    def _in_one_pass(self, names: tuple[str, ...], top: int) -> dict[str, Tensor]:
        batch, heads, queries, _ = self.shape
        found = {name: self._empty(batch, heads, queries) for name in names}
        values = self._empty(batch, heads, queries, top)
        places = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
        for tile in self.tiles():
            for name in names:
                found[name][:, tile.heads, tile.rows] = STATISTICS[name](tile)
            if top:
                best, at = tile.largest(top, self.shape[3])
                values[:, tile.heads, tile.rows], places[:, tile.heads, tile.rows] = best, at
        return {**found, "top": values, "top_keys": places} if top else found

    def entropy(self) -> Tensor:
        """[B, H, Q], in bits."""
        return self.measure("entropy")["entropy"]

    def effective_keys(self) -> Tensor:
        """[B, H, Q]: 2 to the entropy, the number of keys that an even spread of this entropy would have."""
        return self.measure("effective_keys")["effective_keys"]

    def max(self) -> Tensor:
        """[B, H, Q]: the largest weight of each row."""
        return self.measure("max")["max"]

    def distance(self) -> Tensor:
        """[B, H, Q]: the mean distance in tokens from the query to what it looks at."""
        return self.measure("distance")["distance"]

    def top(self, count: int) -> tuple[Tensor, Tensor]:
        """The largest weights of each row and their keys, [B, H, Q, count]. Raises ValueError for more than K."""
        if not 1 <= count <= self.shape[3]:
            raise ValueError(f"top({count}): there are {self.shape[3]} keys; ask for 1 to {self.shape[3]}")
        found = self._in_one_pass((), count)
        return found["top"], found["top_keys"]

    def coverage(self, count: int) -> Tensor:
        """[B, H, Q]: how much of each row its `count` largest weights hold."""
        return self.top(count)[0].sum(-1)

    def columns(self) -> Tensor:
        """[B, H, K]: the sum of the weights on each key over all queries: who is looked at."""
        batch, heads, _, keys = self.shape
        found = self._empty(batch, heads, keys)
        for tile in self.tiles():
            found[:, tile.heads, tile.keys] += (tile.inverse.unsqueeze(-2) @ tile.e).squeeze(-2)
        return found

    def profile(self, farthest: int = 64) -> Tensor:
        """[B, H, farthest + 1]: the mean weight that a query puts on the key 0, 1, 2, ... tokens before it."""
        batch, heads, queries, _ = self.shape
        found = self._empty(batch, heads, farthest + 1)
        for tile in self.tiles():
            found[:, tile.heads] += tile.by_distance(farthest)
        return found / queries

    def induction(self, ids: Tensor) -> Tensor:
        """[B, H, Q]: the weight on tokens that followed an earlier occurrence of the query's token.

        ids [B, K]: the tokens of the keys, of which the queries are the last Q (Olsson et al. 2022).
        """
        return self._earlier(ids, torch.nn.functional.pad(ids[:, :-1], (1, 0), value=-1))

    def duplicate(self, ids: Tensor) -> Tensor:
        """[B, H, Q]: the weight on earlier occurrences of the query's token. ids [B, K] as for `induction`."""
        return self._earlier(ids, ids)

    def _earlier(self, ids: Tensor, marks: Tensor) -> Tensor:
        """[B, H, Q]: the weight on earlier keys whose mark [B, K] is the query's id."""
        batch, heads, queries, keys = self.shape
        if ids.shape != (batch, keys):
            raise ValueError(f"ids is {list(ids.shape)}, but the keys are {[batch, keys]}; give one token for each")
        found, own = self._empty(batch, heads, queries), ids[:, keys - queries :]
        for tile in self.tiles():
            same = own[:, tile.rows, None] == marks[:, None, tile.keys]  # [B r k]
            found[:, tile.heads, tile.rows] = tile.mean(
                (same & (tile.apart() > 0).view(-1, *same.shape[1:])).unsqueeze(1)
            )
        return found

    def agreement(self, head: int, other: int) -> Tensor:
        """[B, Q]: 1 minus the total variation between two heads' rows: 1 = the same weights, 0 = no key in common."""
        pair = [self.only(heads=slice(h, h + 1)) for h in (index("head", i, self.shape[1]) for i in (head, other))]
        found = self._empty(self.shape[0], self.shape[2])
        for a, b in zip(*(one.tiles() for one in pair if isinstance(one, Weights)), strict=True):
            found[:, a.rows] = 1 - 0.5 * (a.weights - b.weights).abs().sum(-1)[:, 0]
        return found

    def _empty(self, *sizes: int) -> Tensor:
        return torch.zeros(sizes, dtype=torch.promote_types(self.q.dtype, torch.float32), device=self.q.device)


class Written(Weights):
    """Weights (or scores) that passed in the open, because they were edited: stored as they were, [B, H, Q, K]."""

    def __init__(self, weights: Tensor, scoring: Scoring, site: str = "weights") -> None:
        self.weights, self.site = weights, site
        super().__init__(weights, weights.mT, scoring)  # for sizes and type; the product that made them is gone

    def block(self, rows: slice) -> Tensor:
        return self.weights[:, :, rows]

    def only(self, samples: slice = slice(None), heads: slice = slice(None)) -> Written:
        return Written(self.weights[samples, heads], part_of(self.scoring, samples, heads), self.site)

    def tiles(self) -> Iterator[Tile]:
        if self.site != "weights":
            raise ValueError("these are scores; statistics are of weights: record `weights` too")
        wide = self.weights.to(torch.promote_types(self.weights.dtype, torch.float32))
        q, k = self.scoring.visible.q_positions, self.scoring.visible.k_positions
        q, k = (p.unsqueeze(1) if p.dim() == 2 else p for p in (q, k))
        heads, rows, keys = (slice(0, size) for size in self.shape[1:])
        largest = wide.amax(-1)
        e = wide / largest.where(largest > 0, 1.0).unsqueeze(-1)
        shifted = e.log().clamp(min=HIDDEN)
        yield Tile(heads, rows, keys, shifted, e, largest, q, k, self.scoring.visible.aligned, backward=False)


class Gradient(Scores):
    """The gradient of a loss with respect to the weights (or scores) of one attention, a view as well.

    Of the weights: g = dL/dheads @ v^T. Of the scores: w * (g - sum(w g)).
    """

    def __init__(self, grad: Tensor, v: Tensor, view: Scores) -> None:
        """grad [B, H, Q, E]: of the heads, weights @ v; v [B, G, K, E]; view: the weights or scores in question."""
        super().__init__(grad, v, view.scoring)
        self.view = view

    def block(self, rows: slice) -> Tensor:
        grad = by_group(self.q[:, :, rows], self.k.mT)
        if isinstance(self.view, Weights):
            return grad
        weights = self.scoring.weights(self.view.q, self.view.k, rows)
        return weights * (grad - (weights * grad).sum(-1, keepdim=True))

    def only(self, samples: slice = slice(None), heads: slice = slice(None)) -> Gradient:
        grad, v, _ = self._cut(samples, heads)
        return Gradient(grad, v, self.view.only(samples, heads))


def index(name: str, i: int, count: int) -> int:
    """A place counted from the start. Raises IndexError if there is no such one."""
    if not -count <= i < count:
        raise IndexError(f"{name} {i} of {count}; use 0 to {count - 1}")
    return i % count
