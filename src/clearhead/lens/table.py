"""The answer to a question of the lens: numbers with names along every axis. Plain data, which view draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Table:
    """`values` [first axis, second axis, ...], and for each axis its name and the label of each place."""

    title: str
    axes: Mapping[str, Sequence[str]]
    values: Tensor
    unit: str = ""
    note: str = ""  # what a reader must know to read the numbers right
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what belongs to it besides: plain data

    def __post_init__(self) -> None:
        sizes = [len(labels) for labels in self.axes.values()]
        assert sizes == list(self.values.shape), f"{self.title}: {sizes} labels for {list(self.values.shape)} values"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        axes = {name: list(labels) for name, labels in self.axes.items()}
        said = {"title": self.title, "unit": self.unit, "note": self.note, "axes": axes}
        return {**said, "values": self.values.tolist(), **self.more}

    def largest(self, count: int = 10) -> list[tuple[tuple[str, ...], float]]:
        """The entries that are largest in size, as (labels, value), largest first."""
        flat = self.values.flatten()
        found: list[tuple[tuple[str, ...], float]] = []
        order: list[int] = flat.abs().nan_to_num(-1).topk(min(count, flat.numel())).indices.tolist()
        for place in order:
            labels: list[str] = []
            rest: int = place
            for names in reversed(list(self.axes.values())):
                rest, i = divmod(rest, len(names))
                labels = [names[i], *labels]
            found.append((tuple(labels), float(flat[place])))
        return found

    def __repr__(self) -> str:
        lines = [f"{self.title}{f' ({self.unit})' if self.unit else ''}, {' x '.join(self.axes)}"]
        lines += [f"  {' '.join(labels):<32} {value:.4g}" for labels, value in self.largest()]
        return "\n".join([*lines, self.note] if self.note else lines)
