"""Figures of matplotlib, without pyplot and without the user's settings: their style, letters and files."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from clearhead.view.terminal import plain

FONT = "DejaVu Sans"  # comes with matplotlib, so the picture is the same everywhere
# Letters become outlines in SVG: the same on every machine. In PDF they stay text, in an embedded font (type 42).
STYLE: dict[str, Any] = {
    "font.family": [FONT],
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "text.parse_math": False,
    "text.usetex": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "clearhead",
    "pdf.fonttype": 42,
    "savefig.dpi": 200.0,
    "hatch.linewidth": 0.3,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
BOXES = "Last Resort"  # a font that has a box for everything
LONGEST = 24  # characters of a label


class Picture(Figure):
    """A figure that a notebook shows, whether or not pyplot was ever imported."""

    def _repr_png_(self) -> bytes:
        found = BytesIO()
        FigureCanvasAgg(self).print_png(found)
        return found.getvalue()


def styled() -> Any:
    """Within it our settings hold, whatever the user's are."""
    return style.context(["default", STYLE])


def blank(width: float, height: float) -> Picture:
    """An empty figure of so many inches."""
    return Picture(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path, kind: str) -> None:
    """Write it; the same figure gives the same bytes."""
    with styled():
        figure.savefig(path, format=kind, metadata=UNDATED[kind])


def readable(token: str) -> str:
    """A label: spaces at its ends visible, control characters and what no font has as escapes, not too long."""
    inner = token.strip(" ")
    ends = len(token) - len(token.lstrip(" ")), len(token) - len(token.rstrip(" "))
    shown = "·" * len(token) if not inner else "·" * ends[0] + inner + "·" * ends[1]
    shown = line(shown) or "∅"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def line(text: str) -> str:
    """One line of any text, as it is; what no font can draw stands there as an escape."""
    return "".join(shown if all(map(_family, shown := plain(c))) else f"\\u{ord(c):04x}" for c in text)


@cache
def _family(character: str) -> str:
    """The font that can draw it: the usual one, else the first by name that is installed; none: ''."""
    fonts = [(FONT, findfont(FontProperties(family=[FONT])))]
    if not get_font(fonts[0][1]).get_char_index(ord(character)):
        fonts = sorted((f.name, f.fname) for f in fontManager.ttflist if f.style == "normal" and BOXES not in f.name)
    return next((name for name, path in fonts if get_font(path).get_char_index(ord(character))), "")


def finished(figure: Picture, *titles: str) -> Picture:
    """With its titles, one a line, and a font for every letter."""
    if any(titles):
        figure.suptitle("\n".join(line(title) for title in titles if title), size=10)
    texts = list(figure.findobj(Text))
    letters = sorted({c for text in texts for c in text.get_text() if c > "\x7f"})
    families = list(dict.fromkeys([FONT, *filter(None, map(_family, letters))]))
    for text in texts:
        text.set_fontfamily(families)
    return figure
