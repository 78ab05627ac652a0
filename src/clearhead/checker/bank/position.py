"""Mistakes in sinusoidal positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake

TASKS = ("positional_encoding",)
RULE = "PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(pos / 10000^(2i/d))."


def entry(name: str, says: str, fix: str, *ways: Any, hint: str = "") -> Mistake:
    return Mistake(name, says, f"{fix} {RULE}", ways, TASKS, hint)


def power(make: Any) -> Any:
    return {"power": lambda c: make(c.column, c.dim)}


def even(c: Any) -> Any:
    return c.column % 2 == 0


def half_written() -> list[Any]:
    """Only the even or only the odd columns get a sine or a cosine."""

    def way(written: Any, first: bool, rest: float) -> Any:
        return {"table": lambda c: np.where(even(c) == first, written(c.angle), rest * c.angle)}

    return [way(written, first, rest) for written in (np.cos, np.sin) for first in (True, False) for rest in (0.0, 1.0)]


def brain(x: Any) -> Any:
    """Rounded to bfloat16: 8 bits of mantissa."""
    scale = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), 1e-30))) - 7)
    return np.round(x / scale) * scale


def by_batch(c: Any) -> Any:
    """Row b for sample b: pe[:x.size(0)] with the batch first."""
    if c.x is None or c.x.ndim != 3:
        raise ValueError("no batch")
    return longer(c, c.batch)[: c.batch, None, :]


def flat_batch(c: Any) -> Any:
    """The first B rows of a (T, d) table, which fit T tokens only by chance."""
    return longer(c, c.batch)[: c.batch]


def longer(c: Any, count: Any) -> Any:
    """The table with at least `count` rows."""
    position = np.arange(max(count, c.count), dtype=np.float64)
    angle = position[:, None] * c.rate
    return np.where(even(c), np.sin(angle), np.cos(angle))


def turned(c: Any) -> Any:
    if c.x is None or c.count == c.dim:
        return c.table.T
    raise ValueError("does not fit")


MISTAKES = (
    entry(
        "pe-integer-division",
        "// in the exponent makes it 0 for every pair, so all pairs of columns are equal.",
        "Use / in the exponent.",
        power(lambda i, d: 0.0 * i),
        power(lambda i, d: (2.0 * (i // 2)) // d),
        power(lambda i, d: (2.0 * i) // d),
    ),
    entry(
        "pe-exponent-doubled",
        "The column number, which already steps by 2, is doubled again: all pairs but the first turn too slowly.",
        "With i = 0, 2, 4 ... the exponent is i/d, not 2i/d.",
        power(lambda i, d: 4 * (i // 2) / d),
    ),
    entry(
        "pe-exponent-per-column",
        "The exponent uses every column's own number, so sine and cosine of a pair turn at different speeds.",
        "Both columns of a pair share the exponent 2 floor(column / 2) / d.",
        power(lambda i, d: 2 * i / d),
    ),
    Mistake(
        "pe-exponent-per-column",
        "The exponent uses every column's own number, so sine and cosine of a pair turn at different speeds.",
        "Both columns of a pair share the exponent 2 floor(column / 2) / d.",
        (power(lambda i, d: i / d),),
        ("positional_encoding",),
        hint=r"sin\((\w+)\[[^\]]*::2\]\)(?s:.*)cos\(\1\[|(\w+)\[[^\]]*::2\]\.sin\(\)(?s:.*)\2\[[^\]]*::2\]\.cos\(\)|"
        r"sin\((\w+)\), ?\w+\.cos\(\3\)",
    ),
    entry(
        "pe-cos-exponent",
        "The cosine uses the next exponent, so it does not belong to its sine: sin^2 + cos^2 is not 1.",
        "Use the same exponent for both columns of a pair.",
        power(lambda i, d: i / d),
        power(lambda i, d: np.where(i % 2 == 0, i, i + 1) / d),
        power(lambda i, d: np.where(i % 2 == 0, 2 * (i // 2), 2 * i) / d),
        power(lambda i, d: np.where(i % 2 == 0, 4 * (i // 2), 2 * (i + 1)) / d),
    ),
    entry(
        "pe-sin-cos-swapped",
        "Cosine stands in the even columns and sine in the odd ones: row 0 is 1 0 1 0 instead of 0 1 0 1.",
        "Sine first.",
        {"table": lambda c: np.where(even(c), np.cos(c.angle), np.sin(c.angle))},
    ),
    entry(
        "pe-position-offset",
        "The positions start at 1, so row 0 is not 0 1 0 1.",
        "Start at 0: arange(n).",
        {"position": lambda c: np.arange(c.count) + 1.0},
        {"position": lambda c: np.arange(c.count) - 1.0},
    ),
    entry(
        "pe-frequency-inverted",
        "The minus sign of the exponent is missing: the last columns turn fastest instead of slowest.",
        "Divide by 10000^(2i/d).",
        {"rate": lambda c: c.base**c.power},
    ),
    entry(
        "pe-wrong-base",
        "The base is not 10000. The first pair is right, the others turn at another speed.",
        "Use 10000.",
        *({"base": lambda c, b=b: b} for b in (1000.0, 100.0, 100000.0, 1e6, 10.0, 500000.0, 9999.0, 10001.0, 512.0)),
    ),
    entry(
        "pe-log-missing",
        "The logarithm is missing in exp(-i log(10000) / d): all columns but the first pair are constant.",
        "exp(-i * log(10000) / d).",
        {"rate": lambda c: np.exp(-c.power * 10000.0)},
    ),
    entry(
        "pe-wrong-log",
        "The logarithm has base 10 (or 2) under a natural exp, so the base is 54.6 in effect.",
        "Use the natural logarithm: math.log.",
        {"rate": lambda c: np.exp(-c.power * np.log10(c.base))},
        {"rate": lambda c: np.exp(-c.power * np.log2(c.base))},
    ),
    entry(
        "pe-batch-axis",
        "The table is cut by the batch size: with the batch first, all tokens of a sample get the same row.",
        "Cut it by the length: pe[:, :x.size(1)].",
        {"rows": by_batch},
        {"rows": flat_batch},
    ),
    entry(
        "pe-single-row",
        "One row is taken instead of the first T: every token gets the same position.",
        "A colon is missing: pe[:, :T].",
        {"rows": lambda c: longer(c, c.count + 1)[c.count][None]},
        {"rows": lambda c: c.table[-1:]},
        {"rows": lambda c: c.table[:1]},
    ),
    entry(
        "pe-all-sine",
        "All columns are sines; row 0 is all zeros.",
        "Cosine in the odd columns.",
        {"table": lambda c: np.sin(c.angle)},
    ),
    entry(
        "pe-columns-overwritten",
        "Sine and cosine are written to the same columns; the others stay as they were: 0, or plain angles.",
        "table[:, 0::2] = sin, table[:, 1::2] = cos.",
        *half_written(),
    ),
    entry(
        "pe-concatenated",
        "The table is put beside the input (or sine beside cosine), which doubles the features.",
        "Add it: x + pe.",
        {"result": lambda c: np.concatenate([c.x, np.broadcast_to(c.rows, c.x.shape)], -1)},
        {"result": lambda c: np.concatenate([np.sin(c.angle), np.cos(c.angle)], -1)},
        {"result": lambda c: np.concatenate([np.broadcast_to(c.rows, c.x.shape), c.x], -1)},
    ),
    entry(
        "pe-multiplied",
        "The table multiplies the input instead of being added: x = 0 gives 0.",
        "x + pe.",
        {"result": lambda c: c.x * c.rows},
    ),
    entry(
        "pe-odd-dim",
        "An odd d fails: there is one cosine column fewer than sine columns.",
        "Cut: cos(...)[:, : d // 2].",
    ),
    entry(
        "pe-transposed",
        "The table is (d, T) instead of (T, d). It is silent when both are equal.",
        "One row per position.",
        {"rows": turned},
    ),
    entry(
        "pe-low-precision",
        "Positions are held in half precision: neighbours become equal beyond 256 (bfloat16) or 2048 (float16).",
        "Compute the table in float32 and convert the result.",
        {"position": lambda c: np.arange(c.count).astype(np.float16).astype(np.float64)},
        {"position": lambda c: brain(np.arange(c.count, dtype=np.float64))},
        {"angle": lambda c: (c.position[:, None].astype(np.float16) * c.rate.astype(np.float16)).astype(np.float64)},
        {"angle": lambda c: brain(brain(c.position[:, None]) * brain(c.rate))},
        {"table": lambda c: np.where(even(c), np.sin(brain(c.angle)), np.cos(brain(c.angle)))},
    ),
    entry(
        "pe-depends-on-length",
        "Positions are divided by the length, so the same position differs between a short and a long text.",
        "Use the plain position.",
        {"position": lambda c: np.arange(c.count) / c.count},
        {"position": lambda c: np.arange(c.count) / max(1, c.count - 1)},
        {"position": lambda c: np.linspace(0, 1, c.count)},
        {"position": lambda c: np.linspace(0, c.count, c.count)},
    ),
)
