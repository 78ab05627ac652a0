"""Pictures made of text: a heat map with its tokens, in colour where the terminal has it."""

import math
import os
import unicodedata
from collections.abc import Sequence

from rich.console import Console
from rich.style import Style
from rich.text import Text

# From no weight to all of it: a dark-to-light scale of one hue, readable without colour vision (cividis' ends).
LOW, HIGH = (0, 34, 78), (253, 231, 76)
MARKS = " .:-=+*#%@"


def heat_map(weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], width: int = 80) -> Text:
    """Weights between 0 and 1 as coloured cells, in percent; queries as rows, keys as columns.

    NaN leaves its place blank. Without colour each cell still shows its number. Where the columns do not fit the
    width, labels are cut first, then numbers give way to marks.

    Raises ValueError if the labels do not match the weights.
    """
    if len(weights) != len(rows) or any(len(row) != len(columns) for row in weights):
        raise ValueError(f"{len(weights)} rows of weights, but {len(rows)} row and {len(columns)} column labels")
    side = min(max(map(_cells, map(plain, rows)), default=0), max(width // 4, 1))
    room = max((width - side - 1) // max(len(columns), 1), 1)
    cell = min(max([_cells(plain(c)) + 1 for c in columns] + [4]), room)
    picture = Text(" " * (side + 1), no_wrap=True)
    for column in columns:
        picture.append(_fit(plain(column), cell - 1, right=True) + " " if cell > 1 else plain(column)[:1] or " ")
    for label, row in zip(rows, weights, strict=True):
        picture.append("\n" + _fit(plain(label), side, right=True) + " ")
        for weight in row:
            if math.isnan(weight):  # there is no such cell
                picture.append(" " * cell)
            else:
                picture.append(_number(weight, cell), style=shade(weight))
    return picture


def plain(token: str) -> str:
    """A token that cannot move the cursor or change colours: control characters become pictures or escapes."""
    seen = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c for c in token)
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") else c for c in seen)


def shade(weight: float) -> Style:
    """The background for a weight, and a foreground that can be read on it."""
    share = min(max(weight, 0.0), 1.0) ** 0.5  # square root: small weights stay visible
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(LOW, HIGH, strict=True))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128
    return Style(color="#ffffff" if dark else "#000000", bgcolor=f"rgb({red},{green},{blue})")


def to_text(picture: Text, colour: bool, width: int = 80) -> str:
    """The picture as a string, with colour codes or without any: of 24 bits where the terminal says so, else of 256."""
    shades = "truecolor" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "256"
    console = Console(width=width, force_terminal=colour, color_system=shades if colour else None, highlight=False)
    with console.capture() as captured:
        console.print(picture, no_wrap=True, overflow="ignore", crop=False)
    return captured.get().rstrip("\n")


def _number(weight: float, cell: int) -> str:
    if cell >= 4:
        return f"{round(100 * weight):>{cell - 1}d} "
    mark = MARKS[min(int(weight * len(MARKS)), len(MARKS) - 1)]
    return mark * max(cell - 1, 1) + (" " if cell > 1 else "")


def _cells(text: str) -> int:
    """How many columns of the terminal a text takes; wide scripts take two each, combining marks none."""
    return Text(text).cell_len


def _fit(text: str, cells: int, right: bool) -> str:
    fitted = Text(text)
    fitted.truncate(cells, overflow="ellipsis")
    gap = " " * (cells - fitted.cell_len)
    return gap + fitted.plain if right else fitted.plain + gap
