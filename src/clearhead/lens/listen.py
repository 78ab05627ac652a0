"""The tap of the lens: edits first, in the order in which they were entered, then every recorder hears the result."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from clearhead.config import TransformerConfig
from clearhead.formulas.attention import Scoring
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, Tap, sites

T = TypeVar("T")


class Ear(Protocol):
    """What hears: a recorder."""

    def text(self, stack: str, ids: Tensor | None, cache: Any) -> None: ...
    def value(self, address: str, value: Tensor) -> None: ...
    def product(self, address: str, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, opened: bool) -> None: ...


class Hand(Protocol):
    """What changes: an edit."""

    def text(self, stack: str, ids: Tensor | None, cache: Any) -> None: ...
    def changed(self, address: str, value: Tensor, start: int) -> Tensor: ...
    def opens(self, address: str) -> bool: ...


class Listener(Tap):
    """One listener for all edits and recorders of a model; `base`, the tap that was there before, is heard first."""

    def __init__(
        self,
        base: Tap = SILENT,
        hands: tuple[Hand, ...] = (),
        ears: tuple[Ear, ...] = (),
        address: str = "",
        start: int = 0,
    ) -> None:
        """`start`: how many tokens the cache held when the stack began."""
        self.base, self.hands, self.ears, self.address, self.start = base, hands, ears, address, start

    def at(self, name: str) -> Listener:
        return Listener(self.base.at(name), self.hands, self.ears, f"{self.address}{name}.", self.start)

    def __call__(self, site: str, value: T) -> T:
        value = self.base(site, value)
        if isinstance(value, Tensor):
            address = self.address + site
            for hand in self.hands:
                value = hand.changed(address, value, self._start(site))
            for ear in self.ears:
                ear.value(address, value)
        return value

    def opens(self) -> bool:
        return self.base.opens() or any(hand.opens(self.address) for hand in self.hands)

    def text(self, stack: str, ids: Tensor | None, cache: Any) -> Listener:
        if not torch.compiler.is_compiling():
            for listener in (*self.hands, *self.ears):
                listener.text(stack, ids, cache)
        start = 0 if cache is None else cache.length
        return Listener(self.base.text(stack, ids, cache), self.hands, self.ears, self.address, start)

    def product(self, q: Tensor, k: Tensor, v: Tensor, weigh: Scoring) -> None:
        self.base.product(q, k, v, weigh)
        opened = self.opens()
        for ear in self.ears:
            ear.product(self.address, q, k, v, weigh, opened)

    def _start(self, site: str) -> int:
        """Which token of its text the first row of a value belongs to."""
        of_the_encoder = site in ("k", "v") and self.address.endswith("cross.")  # all at once, in the first call
        return 0 if of_the_encoder else self.start


@contextmanager
def listening(model: nn.Module, hands: tuple[Hand, ...] = (), ears: tuple[Ear, ...] = ()) -> Generator[Transformer]:
    """Within the block the model is heard and changed; after it, however it ends, the former tap is back."""
    inner = bare(model)
    before = inner.tap
    there = before if isinstance(before, Listener) else Listener(before)
    inner.tap = Listener(there.base, there.hands + hands, there.ears + ears)
    try:
        yield inner
    finally:
        inner.tap = before


def bare(model: nn.Module) -> Transformer:
    """The Transformer inside a wrapper (torch.compile, DistributedDataParallel). ValueError if there is none."""
    inner: Any = model
    while not isinstance(inner, Transformer):
        inner = getattr(inner, "_orig_mod", None) or getattr(inner, "module", None)
        if inner is None:
            raise ValueError(f"model is a {type(model).__name__}; the lens looks into a clearhead.Transformer")
    return inner


def chosen(config: TransformerConfig, patterns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The addresses that each pattern (a glob; `*` crosses dots) stands for. ValueError for one that matches none."""
    known = sites(config)
    found = {pattern: tuple(site for site in known if fnmatchcase(site, pattern)) for pattern in patterns}
    for pattern, matched in found.items():
        if not matched:
            near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5) or list(known[1:4])
            raise ValueError(f"no address matches {pattern!r}; near are {', '.join(near)}; see clearhead.sites(config)")
    return found
