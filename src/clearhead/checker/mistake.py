"""What the bank knows about one mistake. Adding a mistake is adding one entry to a list."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.checker.pipeline import Change


@dataclass(frozen=True)
class Mistake:
    """A named mistake: the words for people, and the ways it is made, as changes of the reference's stages.

    `says` is what it means, `fix` what to do in words and formula. `ways` may be empty: such a mistake is named by a
    probe or by the source. `hint` is a regular expression that the source must contain, for mistakes that running
    cannot tell from others; the report then says that the source was read.
    """

    id: str
    says: str
    fix: str
    ways: tuple[Change, ...] = ()
    tasks: tuple[str, ...] = ("sdpa", "multi_head_attention", "cross_attention", "kv_cache")
    hint: str = ""
    unless: str = ""
