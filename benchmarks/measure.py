"""How every benchmark here measures: peers in one process, round after round, so that a busy machine hits all alike."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Times(NamedTuple):
    """Seconds of one call, over the rounds."""

    median: float
    low: float
    high: float
    rounds: int


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def interleaved(work: dict[str, Callable[[], object]], rounds: int, clock: str = "wall") -> dict[str, Times]:
    """Time every call once per round, after one untimed call each; every round begins with another one.

    clock: "wall", or "cpu" for the processor's seconds of all threads, which a busy machine disturbs less.
    """
    now = CLOCKS[clock]
    seconds: dict[str, list[float]] = {name: [] for name in work}
    names = list(work)
    for call in work.values():
        call()
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            started = now()
            work[name]()
            seconds[name].append(now() - started)
    return {name: Times(statistics.median(s), min(s), max(s), rounds) for name, s in seconds.items()}


def autocast(dtype: str):
    """bf16 as training uses it: float32 weights, bf16 products. fp32: nothing."""
    return torch.autocast("cpu", torch.bfloat16) if dtype == "bf16" else nullcontext()


def product(dtype: str, size: int = 1024) -> Callable[[], object]:
    """One square matrix product: what the hardware can do. 2 * size^3 operations."""
    a, b = (torch.randn(size, size).to(DTYPES[dtype]) for _ in range(2))
    return lambda: a @ b


def versions(*packages: str) -> dict[str, str]:
    """What was measured, and on what kind of machine."""
    found = {name: version(name) for name in ("torch", *packages)}
    capability = torch.backends.cpu.get_cpu_capability()
    return {"python": platform.python_version(), **found, "cpu": f"{platform.machine()}, {capability}"}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, columns aligned."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [[cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in (header, *rows)]
    lines.insert(1, ["-" * w for w in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def save(path: Path | None, result: dict[str, Any]) -> None:
    """The result as one JSON document, if a path was given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
