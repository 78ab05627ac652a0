"""What a page asks: plain numbers and words from outside, each checked before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Args = Mapping[str, Any]


def only(args: Args, *known: str) -> None:
    """Raises ValueError for an argument that the question does not have."""
    for name in args:
        if name not in known:
            raise ValueError(f"{name[:40]!r} is no argument of this question; it has {', '.join(known) or 'none'}")


def whole(args: Args, name: str, count: int, what: str = "") -> int:
    """A place counted from 0 among `count`. Raises ValueError, with both numbers, if there is no such one."""
    given = args.get(name)
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"{name} is {_short(given)}; give a whole number, 0 to {count - 1}")
    if not 0 <= given < count:
        raise ValueError(f"{name} is {given}, but there are {count}{what}, 0 to {count - 1}")
    return given


def flag(args: Args, name: str) -> bool:
    """True or false; left out it is false. Raises ValueError for anything else."""
    given = args.get(name, False)
    if not isinstance(given, bool):
        raise ValueError(f"{name} is {_short(given)}; give true or false")
    return given


def words(args: Args, name: str, limit: int) -> str | None:
    """A text; left out or null it is None. Raises ValueError for anything else and for more than `limit` characters."""
    given = args.get(name)
    if given is not None and not isinstance(given, str):
        raise ValueError(f"{name} is {_short(given)}; give a text")
    if given is not None and len(given) > limit:
        raise ValueError(f"{name} has {len(given):,} characters, the limit is {limit:,}; give less")
    return given


def one_of(args: Args, name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """One of some words. Raises ValueError for another."""
    given = args.get(name)
    if not isinstance(given, str) or given not in known:
        raise ValueError(f"{name} is {_short(given)}; there are {', '.join(known)}")
    return given


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:40]}..."
