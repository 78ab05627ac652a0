"""What can be done to a value on its way: ablate, scale, steer, patch, freeze, cut edges.

Every edit chooses heads and tokens and says what stands there instead. What it chooses is held as tensors of sizes that
do not depend on the choice, so that a compiled model is compiled once for all of them.

Tokens are counted in the text, from 0; with a cache the text goes on from call to call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Attention, TransformerConfig
from clearhead.lens.rows import Scores

HEADED = ("q", "k", "v", "scores", "weights", "heads")  # sites with an axis of heads: [B, H, T, ...]


@dataclass(frozen=True)
class Edit:
    """The base: `new` says what a value becomes; only chosen heads and tokens are replaced by it."""

    heads: tuple[int, ...] | None = None
    tokens: tuple[int, ...] | None = None
    keep_heads: Tensor | None = field(default=None, compare=False)  # [H 1 1] boolean, False = chosen; made by `at`
    keep_tokens: Tensor | None = field(default=None, compare=False)  # [N] the chosen tokens; made by `at`

    def at(self, address: str, config: TransformerConfig) -> Edit:
        """This edit, ready for one address. Raises ValueError if it makes no sense there."""
        site = address.rsplit(".", 1)[-1]
        if self.heads is None and self.tokens is None:
            return self
        keep = None
        if self.heads is not None:
            if site not in HEADED:
                raise ValueError(f"heads={list(self.heads)}: {address} has no heads; those with heads end in {HEADED}")
            keep = _unless(self.heads, _count(address, site, config), address)
        if self.tokens is not None and min(self.tokens, default=0) < 0:
            raise ValueError(f"positions={list(self.tokens)}: tokens are counted from 0, also while a text grows")
        tokens = None if self.tokens is None else torch.tensor(self.tokens)
        return replace(self, keep_heads=keep, keep_tokens=tokens)

    def __call__(self, value: Tensor, start: int) -> Tensor:
        """value [B, (H,) T, ...], whose first row is token `start`."""
        new = self.new(value, start)
        kept = self._kept(value, start)
        return new if kept is None else torch.where(kept, value, new)

    def new(self, value: Tensor, start: int) -> Tensor:
        """What stands in the place of the whole value."""
        raise NotImplementedError

    def touches(self, value: Tensor, start: int) -> bool:
        """Whether one of the chosen tokens is here."""
        return self.tokens is None or any(start <= token < start + value.shape[-2] for token in self.tokens)

    def _kept(self, value: Tensor, start: int) -> Tensor | None:
        kept = None if self.keep_heads is None else self.keep_heads.to(value.device)
        if self.keep_tokens is not None:
            here = torch.arange(start, start + value.shape[-2], device=value.device)
            others = (here[:, None] != self.keep_tokens.to(value.device)).all(-1)[:, None]  # [T 1]
            kept = others if kept is None else kept | others
        return kept


def _unless(chosen: Sequence[int], count: int, address: str) -> Tensor:
    for head in chosen:
        if not -count <= head < count:
            raise ValueError(f"heads={list(chosen)}: {address} has {count} heads, 0 to {count - 1}")
    keep = torch.ones(count, dtype=torch.bool)
    keep[list(chosen)] = False
    return keep[:, None, None]


def _count(address: str, site: str, config: TransformerConfig) -> int:
    """Heads at this address; of keys and values, groups."""
    stack, layer, part, _ = address.split(".")
    form = config.stacks[stack].layers[int(layer)]
    look: Attention | None = form.self_attention if part == "self" else form.cross_attention
    assert look is not None
    return look.groups if site in ("k", "v") else look.heads


@dataclass(frozen=True)
class Zero(Edit):
    """Nothing."""

    def new(self, value: Tensor, start: int) -> Tensor:
        return torch.zeros_like(value)


@dataclass(frozen=True)
class Mean(Edit):
    """The mean over the samples and tokens of this call."""

    def new(self, value: Tensor, start: int) -> Tensor:
        return value.mean((0, -2), keepdim=True).expand_as(value)


@dataclass(frozen=True)
class Resample(Edit):
    """What the neighbouring sample of the batch has there."""

    def new(self, value: Tensor, start: int) -> Tensor:
        if len(value) < 2:
            raise ValueError(f"to='resample' takes values from other samples, but the batch has {len(value)}")
        return value.roll(1, 0)


@dataclass(frozen=True)
class Noise(Edit):
    """The value plus normal noise with `level` times its standard deviation, from torch's global generator."""

    level: float = 1.0

    def new(self, value: Tensor, start: int) -> Tensor:
        return value + self.level * value.std() * torch.randn_like(value)


@dataclass(frozen=True)
class Scale(Edit):
    """The value times a number."""

    factor: float = 1.0

    def new(self, value: Tensor, start: int) -> Tensor:
        return value * self.factor


@dataclass(frozen=True)
class Steer(Edit):
    """The value plus a vector of its width."""

    vector: Tensor = field(default_factory=lambda: torch.zeros(1), compare=False)

    def new(self, value: Tensor, start: int) -> Tensor:
        if self.vector.shape != value.shape[-1:]:
            raise ValueError(
                f"the vector is {list(self.vector.shape)}, but the value {list(value.shape)}: give its width"
            )
        return value + self.vector.to(value)


@dataclass(frozen=True)
class Given(Edit):
    """Values from elsewhere: of the tokens that are run, or one row for all."""

    values: Tensor = field(default_factory=lambda: torch.zeros(1), compare=False)

    def new(self, value: Tensor, start: int) -> Tensor:
        given, count = self.values.to(value), value.shape[-2]
        if given.dim() == value.dim() and given.shape[-2] not in (1, count):
            given = given[..., start : start + count, :]
        if given.shape[-1] not in (1, value.shape[-1]) and self.values.shape[-1] > value.shape[-1]:
            given = given[..., : value.shape[-1]]  # a pattern's keys, while the text is still growing
        try:
            return given.expand_as(value)
        except RuntimeError:
            raise ValueError(
                f"the values are {list(self.values.shape)}, but {list(value.shape)} is needed for tokens {start} to "
                f"{start + count - 1}; record them on a text of the same length"
            ) from None


@dataclass(frozen=True)
class Hide(Edit):
    """Scores of these edges at -inf, so that the query's other keys share its weight."""

    edges: Tensor = field(default_factory=lambda: torch.zeros(0, 2), compare=False)  # [N 2] query (-1: all) and key
    itself: bool = True  # whether a query may be cut from its own token by an edge of all queries

    def at(self, address: str, config: TransformerConfig) -> Edit:
        if not address.endswith(".scores"):
            raise ValueError(f"edges are cut in scores, before the softmax; {address} is not: use its `scores`")
        return super().at(address, config)

    def touches(self, value: Tensor, start: int) -> bool:
        queries, keys = value.shape[-2:]
        pairs: list[tuple[int, int]] = self.edges.tolist()
        return any((q == -1 or start <= q < start + queries) and k < keys for q, k in pairs)

    def new(self, value: Tensor, start: int) -> Tensor:
        queries, keys = value.shape[-2:]
        q = torch.arange(start, start + queries, device=value.device)[:, None, None]
        k = torch.arange(keys, device=value.device)[None, :, None]
        query, key = self.edges.to(value.device).unbind(-1)
        every = (query == -1) if self.itself else (query == -1) & (q != k)
        cut = (((q == query) | every) & (k == key)).any(-1)
        return value.masked_fill(cut, -torch.inf)


def ablate(
    heads: Iterable[int] | None = None, positions: Iterable[int] | None = None, to: str | Tensor = "zero"
) -> Edit:
    """Take out what is there: `to` zero, the mean over samples and tokens, another sample's value (resample), the value
    plus noise, or a given tensor (a mean over a data set). Raises ValueError for another word.
    """
    kinds: dict[str, type[Edit]] = {"zero": Zero, "mean": Mean, "resample": Resample, "noise": Noise}
    choice = _choice(heads, positions)
    if isinstance(to, Tensor):
        return Given(**choice, values=to)
    if to not in kinds:
        raise ValueError(f"to={to!r}; there are {', '.join(kinds)}, or a tensor")
    return kinds[to](**choice)


def scale(factor: float, heads: Iterable[int] | None = None, positions: Iterable[int] | None = None) -> Edit:
    """Times `factor`."""
    return Scale(**_choice(heads, positions), factor=factor)


def steer(vector: Tensor, positions: Iterable[int] | None = None, heads: Iterable[int] | None = None) -> Edit:
    """Plus `vector`, as wide as the site: [D] in the residual, [E] in a head."""
    return Steer(**_choice(heads, positions), vector=vector)


def patch(values: Tensor | Scores, positions: Iterable[int] | None = None, heads: Iterable[int] | None = None) -> Edit:
    """Values recorded in another run, put in here. With a cache, of the tokens that each call adds."""
    return Given(**_choice(heads, positions), values=values.dense() if isinstance(values, Scores) else values)


freeze = patch  # at `weights`: the pattern stays as it was recorded, whatever the queries and keys are


def knock_out(edges: Iterable[tuple[int | None, int]], heads: Iterable[int] | None = None) -> Edit:
    """Query i may not see key j, for each (i, j); (None, j): no query may. At `scores`."""
    pairs = torch.tensor([(-1 if query is None else query, key) for query, key in edges]).reshape(-1, 2)
    if not len(pairs):
        raise ValueError("edges is empty, so the edit would change nothing; give pairs (query, key)")
    return Hide(**_choice(heads, None), edges=pairs)


def without_sink(key: int = 0, heads: Iterable[int] | None = None) -> Edit:
    """No later query may see this key, on which many heads rest when they look for nothing. At `scores`."""
    return Hide(**_choice(heads, None), edges=torch.tensor([[-1, key]]), itself=False)


def _choice(heads: Iterable[int] | None, positions: Iterable[int] | None) -> dict[str, Any]:
    return {
        "heads": None if heads is None else tuple(heads),
        "tokens": None if positions is None else tuple(positions),
    }
