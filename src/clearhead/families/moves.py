"""How the tensors of a file become a model's parameters, and back: a table of moves that run both ways.

A table names modules, theirs and ours, with {} for the number of a layer. What a module holds follows: our `weight` and
`bias` are theirs, our norm's `gain` and `shift` are their `weight` and `bias`. A line may also name one parameter in
full.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

LEAVES = {"gain": "weight", "shift": "bias"}


@dataclass(frozen=True)
class Rename:
    """The same tensor under another name."""

    theirs: str
    ours: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Our names."""
        return (self.ours,)

    def read(self, tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
        """Ours from theirs; `rows` is the first size of each of ours."""
        return [tensor]

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        """Theirs from ours."""
        return parts[0]


class Transpose(Rename):
    """A matrix that is stored [inputs, outputs]; vectors stay as they are."""

    def read(self, tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
        return [_turned(tensor)]

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        return _turned(parts[0])


class Row(Rename):
    """A vector that is stored as a matrix of one row."""

    def read(self, tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
        return [tensor.flatten()]

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0].unsqueeze(0)


@dataclass(frozen=True)
class Split(Rename):
    """One tensor of theirs is several of ours, one below the other; `*` in `ours` stands for each of `names`."""

    names: tuple[str, ...] = ("q", "k", "v")

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.ours.replace("*", name) for name in self.names)

    def read(self, tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
        if sum(rows) != len(tensor):
            raise ValueError(f"{self.theirs} has {len(tensor)} rows in the file, but the config says {list(rows)}")
        return list(tensor.split(list(rows)))

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts))


class SplitTransposed(Split):
    """The same, stored [inputs, outputs]: the parts stand side by side."""

    def read(self, tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
        return super().read(_turned(tensor), rows)

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        return _turned(super().write(parts))


@dataclass(frozen=True)
class SplitHeads(Split):
    """The same, head by head: first the parts of head 0, then those of head 1."""

    heads: int = 1

    def read(self, tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
        if sum(rows) != len(tensor):
            raise ValueError(f"{self.theirs} has {len(tensor)} rows in the file, but the config says {list(rows)}")
        apart = tensor.unflatten(0, (self.heads, len(rows), -1))
        return [part.flatten(0, 1) for part in apart.unbind(1)]

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([part.unflatten(0, (self.heads, -1)) for part in parts], dim=1).flatten(0, 2)


def _turned(tensor: Tensor) -> Tensor:
    return tensor.T if tensor.dim() == 2 else tensor


class Placed(NamedTuple):
    """One move with every name complete."""

    theirs: str
    ours: tuple[str, ...]
    move: Rename


def plan(moves: Iterable[Rename], names: Iterable[str]) -> list[Placed]:
    """The table applied to the names of a model's parameters, each of which it must place exactly once."""
    names = list(names)
    found = [one for move in moves for name in names if (one := _placed(move, name)) is not None]
    places = [name for one in found for name in one.ours]
    assert sorted(places) == sorted(names), f"the table misses or doubles {sorted(set(places) ^ set(names))}"
    return found


def unchanged(names: Iterable[str]) -> list[Placed]:
    """The plan of a file that has our own names."""
    return [Placed(name, (name,), Rename(name, name)) for name in names]


def _placed(move: Rename, name: str) -> Placed | None:
    """The move for the layer and leaf of this name, if it is the name of the move's first part."""
    pattern = re.escape(move.parts[0]).replace(r"\{\}", r"(?P<layer>\d+)", 1).replace(r"\{\}", "(?P=layer)")
    match = re.fullmatch(pattern + r"(?:\.(?P<leaf>[a-z]+))?", name)
    if match is None:
        return None
    found = match.groupdict()
    leaf, layer = found["leaf"], found.get("layer") or ""
    theirs = move.theirs + (f".{LEAVES.get(leaf, leaf)}" if leaf else "")
    ours = (part + (f".{leaf}" if leaf else "") for part in move.parts)
    return Placed(theirs.replace("{}", layer), tuple(part.replace("{}", layer) for part in ours), move)
