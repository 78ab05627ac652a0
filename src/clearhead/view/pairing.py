"""Two readings beside each other: which token of one stands for which of the other, and how far each head moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from torch import Tensor

from clearhead.lens.rows import Weights
from clearhead.view.pooling import HIDDEN
from clearhead.view.reading import Part, Reading

TOKENS = 512  # most tokens of a text

Places = list[tuple[int | None, int | None]]  # of both texts in one line: where a token stands in a and where in b


@dataclass(frozen=True)
class Compared:
    """One kind of attention in both readings."""

    a: Part
    b: Part
    tokens: tuple[dict[str, list[str]], dict[str, list[str]]]  # of a and b, "queries" and "keys", in the form of text
    queries: Places
    keys: Places
    partners: list[list[tuple[int, int]]]  # of each head of a, by layer: (layer, head) of b that it is held against
    distances: list[list[float]]  # and how far apart the two are

    @property
    def name(self) -> str:
        return self.a.name

    @property
    def in_place(self) -> bool:
        """Whether both have as many heads in as many layers, so that each is held against the one in its own place."""
        return _sizes(self.a) == _sizes(self.b)


def pairs_of(a: Reading, b: Reading) -> tuple[Compared, ...]:
    """What both have: encoder with encoder, decoder with decoder, cross-attention with cross-attention.

    Raises ValueError for readings that share none of them or no token, and for texts of more than TOKENS tokens.
    """
    theirs = {part.name: part for part in b.parts}
    both = [(part, theirs[part.name]) for part in a.parts if part.name in theirs]
    if not both:
        said = [", ".join(part.name for part in reading.parts) for reading in (a, b)]
        raise ValueError(f"there is nothing to compare: a has {said[0]}, b has {said[1]}")
    for reading, side in ((a, "a"), (b, "b")):
        for stack, tokens in reading.tokens.items():
            if len(tokens) > TOKENS:
                raise ValueError(
                    f"{side} has {len(tokens)} tokens in its {stack}, a comparison shows at most {TOKENS}; give less"
                )
    return tuple(_pair(mine, other, a, b) for mine, other in both)


def places(a: Sequence[str], b: Sequence[str]) -> Places:
    """Both texts in one line. Equal tokens are paired (difflib's longest runs first), and so are, one by one, those of
    a run that stands in place of a run of as many; every other token stands alone.
    """
    found: Places = []
    for _, top, end, first, last in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if end - top == last - first:
            found += zip(range(top, end), range(first, last), strict=True)
        else:
            found += [(i, None) for i in range(top, end)]
            found += [(None, j) for j in range(first, last)]
    return found


def _pair(a: Part, b: Part, reading: Reading, other: Reading) -> Compared:
    named = (_named(a, reading), _named(b, other))
    queries, keys = (places(named[0][side], named[1][side]) for side in ("queries", "keys"))
    if not any(None not in place for place in queries):
        raise ValueError(f"{a.name}: no token of b stands for one of a, so there is nothing to compare")
    mine, theirs = (_rows(part, side, queries, keys) for side, part in enumerate((a, b)))
    if _sizes(a) == _sizes(b):
        partners = [[(layer, head) for head in range(count)] for layer, count in enumerate(_sizes(a))]
        distances = [distance(rows, other).tolist() for rows, other in zip(mine, theirs, strict=True)]
    else:
        partners, distances = _nearest(mine, [*theirs])
    return Compared(a, b, named, queries, keys, partners, distances)


def _named(part: Part, reading: Reading) -> dict[str, list[str]]:
    across = part.name == "cross"
    sides = ("decoder", "encoder") if across else (part.name, part.name)
    return {name: reading.tokens[stack] for name, stack in zip(("queries", "keys"), sides, strict=True)}


def _sizes(part: Part) -> list[int]:
    return [view.shape[1] for view in part.layers]


def _rows(part: Part, side: int, queries: Places, keys: Places) -> Iterator[Tensor]:
    """Layer by layer [H, q, k] float32: what the paired queries put on every place of the line; 0 where this text has
    no token.
    """
    kept = [place[side] for place in queries if None not in place]
    at = [i for i, place in enumerate(keys) if place[side] is not None]
    for view in part.layers:
        weights = view.block(slice(None))[0, :, kept].float().cpu()
        found = weights.new_zeros(*weights.shape[:2], len(keys))
        found[..., at] = weights
        yield found


def distance(a: Tensor, b: Tensor) -> Tensor:
    """[H]: how far the weights of each head moved from a to b, both [H, q, k] over the same line of places.

    The total variation distance of a query's two rows, 1/2 sum |b - a| over all places, mean over the queries that are
    paired: 0 = the same weights, 1 = no place in common. What lies on a token that stands alone has moved altogether.
    """
    return 0.5 * (a - b).abs().sum(-1).mean(-1)


def _nearest(a: Iterable[Tensor], b: list[Tensor]) -> tuple[list[list[tuple[int, int]]], list[list[float]]]:
    """Of each head of a the nearest head of b, and its distance."""
    names = [(layer, head) for layer, rows in enumerate(b) for head in range(len(rows))]
    every = torch.cat(b).transpose(0, 1)  # [q, heads of b, k]
    partners, distances = list[list[tuple[int, int]]](), list[list[float]]()
    for rows in a:
        apart = 0.5 * torch.cdist(rows.transpose(0, 1), every, p=1).mean(0)  # as `distance`, every head with every head
        best = apart.nan_to_num(torch.inf).min(1).indices
        partners.append([names[i] for i in best.tolist()])
        distances.append(apart[torch.arange(len(best)), best].tolist())
    return partners, distances


def rows_of(view: Weights) -> Tensor:
    """[H, Q, K] float32: every weight of a layer, HIDDEN where a query may not see a key."""
    seen, weights = view.scoring.visible.rows(slice(None)), view.block(slice(None))
    weights = weights if seen is None else weights.masked_fill(~seen, HIDDEN)
    return weights[0].float().cpu()
