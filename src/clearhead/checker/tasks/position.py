"""Probes and answers for positions: a sinusoidal table, a module that adds it to x, or queries that are turned.

Source: Vaswani et al. 2017, section 3.5; Su et al. 2021, section 3.4.2.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from clearhead.checker.binding import Binding, bindings
from clearhead.checker.candidates import Candidate
from clearhead.checker.definitions import constructor, main_method
from clearhead.checker.engine import UNKNOWN, Case, Failed
from clearhead.checker.names import parameters, role
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.setup import Flags, Setup
from clearhead.checker.source import Source, shape_words
from clearhead.checker.subject import CannotRunError, Subject, to_numpy
from clearhead.checker.tasks import turning

#          name            B  T   D  needed
PROBES = (
    ("plain", 3, 7, 10, True),
    ("another width", 3, 12, 6, False),
    ("T = D", 3, 6, 6, False),
    ("B = T", 4, 4, 6, False),
    ("T = 1", 3, 1, 6, False),
    ("one sample", 1, 5, 8, False),
    ("long", 2, 2100, 4, False),
)

TABLE: Change = {
    "base": lambda c: 10000.0,
    "position": lambda c: np.arange(c.count, dtype=np.float64),
    "column": lambda c: np.arange(c.dim),
    "power": lambda c: 2 * (c.column // 2) / c.dim,
    "rate": lambda c: c.base**-c.power,
    "angle": lambda c: c.position[:, None] * c.rate,
    "table": lambda c: np.where(c.column % 2 == 0, np.sin(c.angle), np.cos(c.angle)),
    "rows": lambda c: c.table,
    "placed": lambda c: c.rows if c.x is None else c.x + c.rows,
    "turned": lambda c: None if c.q is None else in_pairs(c.q, c.angle[:, 0::2]),
    "result": lambda c: c.placed if c.q is None else c.turned,
}


def in_pairs(x: Any, angle: Any) -> Any:
    """x [... T E], neighbouring columns turned by `angle` [T E/2]."""
    a, b = x[..., 0::2], x[..., 1::2]
    sin, cos = np.sin(angle), np.cos(angle)
    return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def in_halves(x: Any, angle: Any) -> Any:
    """x [... T E], column i and column i + E/2 turned by `angle` [T E/2]."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    sin, cos = np.sin(angle), np.cos(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def probes(setup: Setup) -> list[Case]:
    fixed = dict(setup.sizes)
    cases = []
    for seed, (name, batch, count, dim, needed) in enumerate(PROBES):
        batch, count, dim = fixed.get("B", batch), fixed.get("T", count), fixed.get("D", fixed.get("d", dim))
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((batch, count, dim))
        if setup.variant == "one":
            x = x[0]
        names: dict[str, Any] = {"x": x, "T": count, "n": count, "d": dim, "D": dim, "dk": dim, "B": batch}
        names |= {"q_len": count, "k_len": count, "positions": np.arange(count), "H": 2 if "Q" in setup.uses else 1}
        names["Q"] = names["q"] = rng.standard_normal((batch, 2, count, dim))
        if setup.variant == "seq":
            names["x"] = np.swapaxes(x, 0, 1).copy()
        context = {"count": count, "dim": dim, "x": x if "x" in setup.uses else None, "batch": batch, "style": "nan"}
        context["q"] = names["Q"] if "Q" in setup.uses else x if setup.variant == "turned" else None
        cases.append(Case(name, names, context, needed))
    return cases


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    try:
        made = work(TABLE, Context(**case.context), change)
        if np.abs(made.angle).max() > 1e5:  # float32 says nothing there
            return Failed("", UNKNOWN)
        return np.asarray(made.result)
    except Exception as error:
        return Failed(str(error))


def read_answer(setup: Setup, case: Case, value: Any, notes: dict[str, Any]) -> Any:
    parts = value if isinstance(value, tuple) and len(value) > 1 else (value,)
    out = to_numpy(parts[0])
    if out is None or out.dtype.kind not in "fiu":
        return Failed("it returned no numbers", "TypeError")
    notes["single"] = True  # tables are made in float32 as a rule
    x = case.context["x"]
    if case.context["q"] is not None:
        return out, None
    if x is None:
        flat = (case.context["count"], case.context["dim"])
        if case.name == "long" and out.ndim == 2 and len(out) < flat[0] and out.shape[1] == flat[1]:
            return Failed(f"the table has {len(out)} rows", "IndexError")
        return (
            out.reshape(flat) if out.ndim > 2 and out.size == flat[0] * flat[1] and out.shape[-1] == flat[1] else out
        ), None
    if setup.variant == "seq" and out.ndim == 3:
        out = np.swapaxes(out, 0, 1)
    if (
        out.ndim in (2, 3)
        and out.shape != x.shape
        and out.shape[-2:] == x.shape[-2:]
        and out.size == x.shape[-2] * x.shape[-1]
    ):
        out = np.broadcast_to(out.reshape(out.shape[-2:]), x.shape)
    return out, None


COUNT = (
    r"n|t|l|(seq|max|num|n|sequence|context|input)_?(len|length|seq|pos|positions|tokens|"
    r"seq_len|seq_length|length)s?|length|n_pos.*|num_pos.*|max_.*|seq.*|pos|positions?|"
    r"tokens|count|ctx|max_sequence_length"
)


SPARE = ("n", "D", "x", "positions")


def reader(allow_x: bool) -> Callable[[str], str | None]:
    """What a name says: the length, the width, or (not in a constructor) the input."""

    def known(name: str) -> str | None:
        low = name.lower()
        if re.fullmatch(COUNT, low):
            return "n"
        if role(name, frozenset(("D", "dk"))):
            return "D"
        return "x" if allow_x and role(name, frozenset(("x",))) else None

    return known


def calls(subject: Subject, source: Source, candidate: Candidate, base: Setup) -> list[Setup]:
    """The calls of a table function or of a module; one that makes a row or a number is asked for every one."""
    node = candidate.node
    if isinstance(node, ast.FunctionDef):
        method, made = node, [""]
    else:
        init, method = constructor(node), main_method(node)
        if method is None:
            raise CannotRunError(f"{candidate.name} has no forward")
        found = bindings(init, reader(False), ("D", "n"), frozenset(("D",))) if init else []
        made = [f"({', '.join(re.sub(r'n$', '512', t) for t in b.texts)})" for b in found] or ["()"]
    args = bindings(method, reader(True), SPARE, frozenset(("D", "x")), source.docs)
    starts = [candidate.name + m + ("" if node is method or method.name in DIRECT else f".{method.name}") for m in made]
    found = [f"{start}({text})" for start in starts for b in args for text in dict.fromkeys((b.call(), listed(b)))]
    if node is method:
        found += one_by_one(candidate.name, parameters(method))
        found = [*turning.calls(subject, source, method, reader(True)), *found]
        found = [rows_of(call) for call in found] if yields(method) else found
    return [replace(base, call=call) for call in dict.fromkeys(found)]


DIRECT = ("forward", "__call__")


def yields(node: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.Yield) for n in ast.walk(node))


def rows_of(call: str) -> str:
    """The first rows of what goes on without end."""
    return f"[row for _, row in zip(range(n), {call})]"


def listed(binding: Binding) -> str:
    """The call with all positions in place of their number."""
    return ", ".join("positions" if text == "n" else text for text in binding.texts)


def one_by_one(name: str, given: list[tuple[str, bool]]) -> list[str]:
    """The table from a function of one position (and one column)."""
    count = sum(not default for _, default in given)
    rows = {2: f"[{name}(p, D) for p in range(n)]"}
    cells = {3: f"[[{name}(p, i, D) for i in range(D)] for p in range(n)]"}
    return [text for text in ({**rows, **cells}.get(count),) if text]


def variants(source: Source, setup: Setup, flags: Flags) -> list[Setup]:
    """Which axis of x is the batch: the first, unless the docs or the table's own shape say otherwise."""
    if "x" not in setup.uses:
        return [setup]
    if source.says(r"(?i)rotat|rotary|view_as_complex|(?<!p)rope"):
        setup = replace(setup, variant="turned")
        return [setup]
    words = shape_words(source.docs, "x") or []
    first = words[0].lower() if words else ""
    if len(words) == 2:
        return [replace(setup, variant="one")]
    told = re.search(r"^(s|t|l|n)\w*|seq|len", first) is not None and not first.startswith("b")
    if not words and not source.tells(r"batch.?first|\(B, T|\(batch"):
        told = source.says(r"\.unsqueeze\(1\)|transpose\(0, 1\)|\[:, None\b(?!.*arange)") and source.says(
            r"pe\w*\[:\s*x\.(size\(0\)|shape\[0\])|\[: ?len\(x\)"
        )
        told = told and source.says(
            r"(pe|table|encoding|enc)\w*( = |\.).*(unsqueeze\(1\)|transpose\(0, 1\))|"
            r"unsqueeze\(0\)\.transpose\(0, 1\)|zeros\(\w+, 1, "
        )
    if told and not flags.call:
        return [replace(setup, variant="seq")]
    return [setup] if flags.call or words else [setup, replace(setup, variant="one")]
