"""A page as text: headings, one line of words, matrices in columns that fit the width."""

import io
import os
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from clearhead.lesson.page import Page, Step

GAP = 2  # blanks between columns
NARROWEST = 40  # in fewer columns nothing could be read
LETTERS = {
    "B": "batch",
    "H": "heads",
    "Q": "queries",
    "K": "keys",
    "T": "tokens",
    "E": "head width",
    "D": "model width",
    "F": "feed-forward width",
    "V": "vocabulary",
    "R": "pairs of columns",
}
FAINT = {"0.000", "·"}  # cells that step back: nothing comes from there


def to_text(page: Page, width: int = 80, colour: bool = False) -> str:
    """The page in lines of at most `width` columns (at least 40). Colours only if wanted and NO_COLOR is not set."""
    width, out = max(width, NARROWEST), io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system="standard" if colour and not os.environ.get("NO_COLOR") else None,
        force_terminal=colour,
        force_jupyter=False,
        highlight=False,
    )
    for line in _lines(page, width):
        console.print(line, overflow="fold")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _lines(page: Page, width: int) -> Iterator[Text]:
    yield Text(page.title, style="bold underline")
    if letters := _legend(page):
        yield Text(letters, style="dim")
    for step in page.steps:
        yield Text("")
        yield _heading(step, width)
        yield Text(step.words)
        yield from _value(step, width)
        if step.note:
            yield Text(step.note, style="italic")


def _legend(page: Page) -> str:
    shapes = [step.shape for step in page.steps]
    shapes += [shape for step in page.steps if isinstance(step.value, dict) for shape in step.value.get("letters", [])]
    used = set(" ".join(shapes).split())
    return ", ".join(f"{letter} {word}" for letter, word in LETTERS.items() if letter in used)


def _heading(step: Step, width: int) -> Text:
    heading = Text(step.name, style="bold")
    if step.formula:
        heading.append(f" = {step.formula}", style="cyan not bold")
    if isinstance(step.value, np.ndarray):
        sizes = " × ".join(map(str, step.value.shape))
        shape = f"[{step.shape}] {sizes}"
        heading.append("  " if len(heading) + 2 + len(shape) <= width else "\n")
        heading.append(shape, style="dim not bold")
    return heading


def _value(step: Step, width: int) -> Iterator[Text]:
    value = step.value
    if isinstance(value, np.ndarray):
        yield from _array(value, list(step.labels), width)
    elif isinstance(value, dict):
        yield from _table(value, width)
    elif isinstance(value, str):
        yield from (Text(line) for line in value.splitlines())
    elif isinstance(value, list):
        yield Text("  ".join(value))
    else:
        yield Text(figure(value))


def _array(array: NDArray[Any], labels: list[Sequence[str]], width: int) -> Iterator[Text]:
    """One row of numbers, a matrix, or one matrix per entry of the first axis."""
    if array.ndim == 3:
        for name, plane in zip(labels[0], array, strict=True):
            yield Text(name, style="dim")
            yield from _array(plane, labels[1:], width)
        return
    if array.ndim == 1:
        array, labels = array[None], [[""], *labels]
    rows, columns = ([*labels, [], []])[:2]
    cells = [[_cell(number) for number in row] for row in array.tolist()]
    yield from _grid(rows or [""] * len(cells), columns or [""] * array.shape[1], cells, width)


def _table(table: dict[str, list[Any]], width: int) -> Iterator[Text]:
    """Columns by name, words to the left and numbers to the right; the first column names the rows."""
    columns: list[list[str]] = []
    for name, column in table.items():
        shown = [name, *map(figure, column)]
        size = max(map(len, shown))
        columns.append([cell.ljust(size) if isinstance(column[0], str) else cell.rjust(size) for cell in shown])
    (corner, *rows), *rest = columns
    cells = [list(row) for row in zip(*(column[1:] for column in rest), strict=True)]
    yield from _grid(rows, [column[0] for column in rest], cells, width, corner)


def _grid(
    rows: Sequence[str], columns: Sequence[str], cells: list[list[str]], width: int, corner: str = ""
) -> Iterator[Text]:
    """Right-aligned columns behind the names of the rows; columns that do not fit go on below."""
    sizes = [max(len(name), *(len(row[i]) for row in cells)) + GAP for i, name in enumerate(columns)]
    widest = max(len(name) for name in (corner, *rows))
    side = min(widest, width - max(sizes))
    blocks = list(_blocks(sizes, width - side))
    if len(blocks) > 1 and not any(columns):
        columns = [str(i) for i in range(len(columns))]  # else nobody could tell which columns go on below
    for block in blocks:
        if any(columns):
            head = _clip(corner, side) + "".join(f"{columns[i]:>{sizes[i]}}" for i in block)
            yield Text(head, style="dim", no_wrap=True)
        for name, row in zip(rows, cells, strict=True):
            line = Text(_clip(name, side), no_wrap=True)
            for i in block:
                line.append(f"{row[i]:>{sizes[i]}}", style="dim" if row[i] in FAINT else "")
            yield line


def _blocks(sizes: list[int], room: int) -> Iterator[list[int]]:
    """Runs of neighbouring columns that fit into `room`, at least one column each."""
    block: list[int] = []
    for i, size in zip(count(), sizes):
        if block and sum(sizes[j] for j in block) + size > room:
            yield block
            block = []
        block.append(i)
    yield block


def _clip(name: str, size: int) -> str:
    """Exactly `size` columns."""
    return f"{name:<{size}}" if len(name) <= size else name[: size - 1] + "…"


def _cell(number: Any) -> str:
    """A number of a matrix: 3 decimals, and no minus before a zero. █ = may attend, · = hidden."""
    if isinstance(number, bool):
        return "█" if number else "·"
    return f"{number:z.3f}"


def figure(value: Any) -> str:
    """A single number or a word: 3 decimals, or a power of ten where they would hide it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if not value:
        return "0"
    return f"{value:.3f}" if 0.0005 <= abs(value) < 1e6 else f"{value:.1e}"
