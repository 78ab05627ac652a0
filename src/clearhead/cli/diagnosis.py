"""What the doctor found, for a terminal."""

import sys
import textwrap
from typing import Any

from rich.console import Console
from rich.table import Table

from clearhead.cli.options import width

LABELS = {
    "rows": "rows to train on",
    "kept": "rows for validation",
    "characters": "characters to train on",
    "empty": "rows with an empty side",
    "uneven": "pairs of uneven length",
    "copied": "pairs with equal sides",
    "doubled": "repeats, word for word",
    "leaked": "in validation and training",
    "per_row": "tokens of a row, median",
    "longest": "tokens of the longest row",
    "largest_id": "largest id, from 0",
    "vocabulary": "size of the vocabulary",
    "unknown": "unknown tokens",
    "block": "tokens of a block",
    "seconds_per_step": "time of a step",
    "seconds": "time of all steps",
    "memory_gb": "peak of memory",
    "padding": "padding in the batches",
}


def print_diagnosis(found: Any) -> None:
    """A `Diagnosis`: its numbers with their units, sides side by side, then what is to be mended or known."""
    if found.facts:
        Console(width=width(), highlight=False).print(_table(found.facts))
        print()
    for level, what in found.findings:
        print(_wrapped(f"{level}: {what}"))
    print("nothing to mend" if not found.faults else f"{found.faults} to mend")


def _table(facts: dict[str, Any]) -> Table:
    """A column of labels, and one of numbers or, of pairs, two."""
    sides = {name: value for name, value in facts.items() if isinstance(value, dict)}
    table = Table.grid(padding=(0, 2))
    table.add_column()
    for _ in sides or ("one",):
        table.add_column(justify="right")
    shown = False
    for name, value in facts.items():
        if name not in sides:
            table.add_row(_label(name), _number(name, value))
        elif not shown:
            shown = True
            if len(sides) > 1:
                table.add_row("", *sides)
            for inner in value:
                table.add_row(_label(inner), *(_number(inner, side[inner]) for side in sides.values()))
    return table


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def _number(name: str, value: Any) -> str:
    if name in ("unknown", "padding"):
        return f"{value:.2%}".replace("%", " %")
    if name.startswith("seconds"):
        return _time(value)
    if name == "memory_gb":
        return f"{value:.2f} GB"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _wrapped(text: str) -> str:
    """Between words, where somebody reads it; a program gets a line for each finding."""
    if not sys.stdout.isatty():
        return text
    return textwrap.fill(text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
