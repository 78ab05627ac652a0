"""Ways that differ from the reference in numbers and are right all the same: never to be flagged."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.bank.causal import corner
from clearhead.checker.pipeline import Change
from clearhead.checker.setup import Setup
from clearhead.checker.tasks.attend import distance
from clearhead.checker.tasks.position import in_halves, in_pairs


def top_left(c: Any) -> Any:
    """The triangle from the top left corner: torch's is_causal. Differs only for T_q != T_k."""
    if not c.causal:
        return None
    near = None if c.window is None else distance(c) < c.window
    return corner(c) if near is None else corner(c) & near


def zero_rows(name: str) -> Any:
    """Rows of padded queries set to zero, besides hiding padded keys."""

    def stage(c: Any) -> Any:
        out = getattr(c, name)
        keep = c.padding
        if keep is None or keep.shape[-2] != 1 or keep.shape[-1] != out.shape[-2]:
            raise ValueError("no padding of the queries")
        rows = np.swapaxes(keep, -1, -2)
        return out * (rows if rows.ndim == out.ndim else rows[:, 0])

    return stage


ATTENTION_CONVENTIONS: tuple[tuple[str, Change], ...] = (
    (
        "the triangle starts top left (as torch's is_causal does) when there are more keys than queries",
        {"ahead": top_left},
    ),
    ("the output of padded queries is set to zero", {"result": zero_rows("out")}),
)
HEAD_CONVENTIONS: tuple[tuple[str, Change], ...] = (
    ("the output of padded queries is set to zero", {"answer": lambda c: zero_rows("plain")(_plain(c))}),
)


def _plain(c: Any) -> Any:
    c.plain = c.merged if c.wo is None else c.merged @ c.wo
    return c


def halves(c: Any) -> Any:
    """All sines, then all cosines."""
    angle = c.angle[:, 0::2]
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


def spaced(c: Any) -> Any:
    """tensor2tensor's frequencies, evenly from 1 to 1/base: d/2 - 1 steps."""
    return c.base ** -(np.arange(c.dim // 2) / max(1, c.dim // 2 - 1))


def spaced_halves(c: Any) -> Any:
    angle = c.position[:, None] * spaced(c)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


def spaced_pairs(c: Any) -> Any:
    return c.base ** -((c.column // 2) / max(1, c.dim // 2 - 1))


TABLES: tuple[tuple[str, Change], ...] = (
    ("all sines, then all cosines", {"table": halves}),
    ("tensor2tensor's frequencies (d/2 - 1 steps), sines then cosines", {"table": spaced_halves}),
    ("tensor2tensor's frequencies (d/2 - 1 steps)", {"rate": spaced_pairs}),
)
PLACES: tuple[tuple[str, Change], ...] = (
    ("only the table is returned", {"result": lambda c: np.broadcast_to(c.rows, c.x.shape)}),
    ("the input is scaled by sqrt(d) first", {"result": lambda c: c.x * np.sqrt(c.dim) + c.rows}),
)
TURNS: tuple[tuple[str, Change], ...] = (
    ("rotary positions, halves", {"turned": lambda c: in_halves(c.q, c.angle[:, 0::2])}),
)
POSITION_CONVENTIONS = (*TABLES, *PLACES, *((f"{a}; {b}", {**x, **y}) for a, x in TABLES for b, y in PLACES))


def last_first(c: Any) -> Any:
    """BART's way: the last real token (the end of sentence) starts the decoder's input."""
    last = (c.clean != 1).sum(1) - 1
    return np.concatenate([c.clean[np.arange(len(last)), last][:, None], c.clean[:, :-1]], 1)


def blank(c: Any) -> Any:
    """The ids to the right of a start token, padding where the label is padding."""
    return np.where(c.clean == 1, 1, np.concatenate([c.start, c.clean[:, :-1]], 1))


TARGET_CONVENTIONS: tuple[tuple[str, Change], ...] = (
    (
        "padding among the targets is ignored (-100)",
        {"targets": lambda c: np.where(c.ids[:, 1:] == 1, -100, c.ids[:, 1:])},
    ),
)
SHIFT_CONVENTIONS: tuple[tuple[str, Change], ...] = (
    ("the end of sentence starts the decoder's input", {"result": last_first}),
    ("where the label is padding, the decoder's input is too", {"result": lambda c: blank(c)}),
)


def rotated(pairs: bool) -> Any:
    def turn(x: Any, positions: Any) -> Any:
        half = x.shape[-1] // 2
        return (in_pairs if pairs else in_halves)(x, positions[:, None] * 10000.0 ** -(np.arange(half) / half))

    return {
        "q": lambda c: turn(c.made[0], c.positions),
        "new": lambda c: (turn(c.made[1], c.positions), c.made[2]),
    }


def sinusoids(c: Any) -> Any:
    """The positions' rows of the usual table, [n D]."""
    wide = c.x_new.shape[-1]
    column = np.arange(wide)
    angle = c.positions[:, None] * 10000.0 ** -(2 * (column // 2) / wide)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


CACHE_CONVENTIONS: tuple[tuple[str, Change], ...] = (
    ("rotary positions, halves", rotated(False)),
    ("rotary positions, pairs", rotated(True)),
)
STEP_CONVENTIONS = (("sinusoidal positions are added to the input", {"moved": lambda c: c.x_new + sinusoids(c)}),)
CONVENTIONS = (*ATTENTION_CONVENTIONS, *HEAD_CONVENTIONS, *POSITION_CONVENTIONS, *SHIFT_CONVENTIONS, *CACHE_CONVENTIONS)


def allowed(setup: Setup) -> list[tuple[str, Change]]:
    """The conventions that may apply to a setup, each with the words for the report."""
    if setup.task == "sdpa":
        return list(ATTENTION_CONVENTIONS)
    if setup.task == "causal_mask":
        return [] if setup.uses & {"k_len", "past"} else list(ATTENTION_CONVENTIONS[:1])
    if setup.task == "decoder_shift":
        if setup.variant in ("pairs", "targets"):
            return list(TARGET_CONVENTIONS)
        own = SHIFT_CONVENTIONS[1:] if "bos" in setup.uses else SHIFT_CONVENTIONS
        return list(own) if setup.variant == "right" else []
    if setup.task == "kv_cache":
        return [*CACHE_CONVENTIONS, *(STEP_CONVENTIONS if "x" in setup.uses else ())]
    if setup.task == "positional_encoding":
        return list(TURNS if "Q" in setup.uses or setup.variant == "turned" else POSITION_CONVENTIONS)
    return [*ATTENTION_CONVENTIONS, *HEAD_CONVENTIONS]
