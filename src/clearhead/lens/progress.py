"""A progress bar on stderr for questions that take many runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")
LONG = 8  # steps from which a bar is worth its line


def steps(title: str, items: Sequence[T], show: bool = True) -> Iterator[T]:
    """The items, one by one; a bar shows how far they are."""
    quiet = not show or len(items) < LONG
    yield from track(items, title, console=Console(stderr=True), transient=True, disable=quiet)
