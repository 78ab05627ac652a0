"""Drawing numbers: maps with a colour bar, small pictures in a grid, bars, curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LogNorm, Normalize, PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from clearhead.view.canvas import Picture, blank, finished, line, readable, styled
from clearhead.view.panels import Panel

LABELLED = 64  # places up to which each has its label
VECTOR = 4096  # cells up to which each is a shape; more become one picture
FLOOR = 1e-5  # where the logarithmic scale begins
BLUE, RED, PAGE, HATCH = "#00224e", "#d000d0", "#ffffff", "#b0b0b0"


@styled()
def maps(panels: Sequence[Panel], scale: str, unit: str, title: str) -> Picture:
    """Panels side by side, with one scale and one colour bar for all."""
    norm, colours = _colouring([p.values[~p.hidden] for p in panels], scale)
    across = min(len(panels), 3 if len(panels) % 3 == 0 or len(panels) > 4 else 2)
    sizes = np.array([_size(p) for p in panels])
    width = sizes[:, 0].max() * across + 0.9
    height = sizes[:, 1].max() * -(-len(panels) // across) + (0.4 if title else 0.0)
    figure = blank(max(width, 3.2), max(height, 2.4))
    grid = figure.subplots(-(-len(panels) // across), across, squeeze=False)
    for ax, panel in zip(grid.flat, panels, strict=False):
        _mesh(ax, panel, norm, colours, scale)
    for ax in grid.flat[len(panels) :]:
        ax.set_axis_off()
    _bar(figure, ScalarMappable(norm, colours), list(grid.flat), scale, unit)
    return finished(figure, title)


def _size(panel: Panel) -> tuple[float, float]:
    """Inches of a panel with its labels."""
    wide, high = (0.42, 0.25) if panel.numbers else (0.2, 0.2)  # of a cell
    left, width = _extent(panel.rows, panel.columns, wide)
    below, height = _extent(panel.columns, panel.rows, high)
    return max(left + width, 0.07 * len(panel.title)) + 0.4, below + height + 0.8


def _extent(words: Sequence[str], places: Sequence[str], cell: float) -> tuple[float, float]:
    """Inches for the words at one side, and for the places along the other."""
    label = 0.4 if len(words) > LABELLED else 0.075 * _longest(words)
    return label, 5.0 if len(places) > LABELLED else max(len(places) * cell, 1.4)


def _longest(labels: Sequence[str]) -> int:
    return max((len(readable(label)) for label in labels), default=1)


def _colouring(shown: Sequence[Any], scale: str) -> tuple[Normalize, Colormap]:
    """One scale for all: from 0, or where there is less than 0, the same way to both sides."""
    values = np.concatenate([*shown, np.zeros(1)])
    values = values[np.isfinite(values)]
    most = float(np.abs(values).max()) or 1.0
    if values.min() < 0:
        if scale != "linear":
            raise ValueError(f"scale={scale!r} has no place for numbers below 0 ({values.min():.3g}); use 'linear'")
        return Normalize(-most, most), colormaps["PuOr_r"].with_extremes(over=RED)
    norms = {"linear": Normalize(0, most), "sqrt": PowerNorm(0.5, 0, most), "log": LogNorm(min(FLOOR, most / 10), most)}
    return norms[scale], colormaps["cividis"].with_extremes(over=RED)


def _mesh(ax: Axes, panel: Panel, norm: Normalize, colours: Colormap, scale: str) -> None:
    edges = [
        np.append(np.arange(0, len(labels), step), len(labels)) - 0.5
        for labels, step in zip((panel.columns, panel.rows), panel.block[::-1], strict=True)
    ]
    ax.patch.set(facecolor=PAGE, edgecolor=HATCH, hatch="//////")  # behind: what is hidden is not zero
    cells = _cells(panel, norm, scale)
    shapes: Any = {"rasterized": True} if cells.size > VECTOR else {"edgecolors": "face", "linewidth": 0.4}  # no seams
    ax.pcolormesh(*edges, cells, norm=norm, cmap=colours, **shapes)
    ax.invert_yaxis()
    notes = [panel.note, "magenta: not a number" if np.isnan(panel.values[~panel.hidden]).any() else ""]
    ax.set_title("\n".join(filter(None, [line(panel.title), *notes])))
    ax.set(xlabel=panel.axes[1], ylabel=panel.axes[0])
    _ticks(ax, panel)
    if panel.numbers:
        _write(ax, panel, norm, colours)


def _cells(panel: Panel, norm: Normalize, scale: str) -> Any:
    """What is drawn: without what is hidden, and what is not a number over the scale, in a colour of its own."""
    values = np.where(np.isnan(panel.values), 2 * (norm.vmax or 1.0), panel.values)
    return np.ma.masked_array(np.maximum(values, norm.vmin or 0.0) if scale == "log" else values, panel.hidden)


def _ticks(ax: Axes, panel: Panel) -> None:
    if len(panel.rows) <= LABELLED:
        ax.set_yticks(range(len(panel.rows)), [readable(label) for label in panel.rows])
    else:
        ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    if len(panel.columns) <= LABELLED:
        words = [readable(label) for label in panel.columns]
        ax.set_xticks(range(len(words)), words, rotation=0 if max(map(len, words), default=0) <= 2 else 90)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def _write(ax: Axes, panel: Panel, norm: Normalize, colours: Colormap) -> None:
    places = _decimals(norm.vmax or 1.0, 3)
    for (row, column), value in np.ndenumerate(panel.values):
        if not panel.hidden[row, column]:
            red, green, blue, _ = colours(float(norm(value)))
            ink = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
            ax.text(column, row, _fixed(value, places), ha="center", va="center", size=6, color=ink)


def _decimals(most: float, digits: int) -> int:
    """Decimals with which the largest number has so many digits."""
    return max(0, digits - 1 - math.floor(math.log10(most or 1.0)))


def _fixed(value: float, places: int) -> str:
    return f"{round(value, places) + 0.0:.{places}f}"  # no minus before 0.00


def _bar(figure: Picture, colours: ScalarMappable, axes: list[Axes], scale: str, unit: str) -> None:
    bar = figure.colorbar(colours, ax=axes, pad=0.02, aspect=30)
    bar.set_label(" ".join(filter(None, [unit, {"sqrt": "(square-root scale)", "log": "(log scale)"}.get(scale)])))
    if scale == "log":
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        bar.ax.minorticks_off()


@styled()
def thumbnails(rows: Sequence[Sequence[Panel]], scale: str, title: str) -> Picture:
    """Layers as rows and heads as columns, each cell a small picture, all on one scale."""
    norm, colours = _colouring([p.values[~p.hidden] for row in rows for p in row], scale)
    across, down = max(map(len, rows)), len(rows)
    side = min(0.9, 9.0 / max(across, down))
    figure = blank(across * side + 1.6, down * side + 1.1)
    ax = figure.subplots()
    for i, row in enumerate(rows):
        for j, panel in enumerate(row):
            place = (j - 0.46, j + 0.46, i + 0.46, i - 0.46)
            square = Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, zorder=-1)
            square.set(facecolor=PAGE, edgecolor=HATCH, hatch="/" * 6, linewidth=0)
            ax.add_patch(square)
            ax.imshow(_cells(panel, norm, scale), colours, norm, extent=place, interpolation="nearest", aspect="equal")
    ax.set(xlim=(-0.5, across - 0.5), ylim=(down - 0.5, -0.5), xlabel="head", ylabel="layer")
    ax.set_xticks(range(across), [str(i) for i in range(across)])
    ax.set_yticks(range(down), [str(i) for i in range(down)])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    _bar(figure, ScalarMappable(norm, colours), [ax], scale, "weight")
    return finished(figure, title, next((panel.note for row in rows for panel in row if panel.note), ""))


@styled()
def bars(values: Sequence[float], labels: Sequence[str], unit: str, title: str, axis: str = "") -> Picture:
    """One horizontal bar for each number, the first on top, its number beside it. labels are readable already."""
    figure = blank(0.075 * max(map(len, labels), default=0) + 4.2, max(0.19 * len(values) + 0.9, 1.8))
    ax = figure.subplots()
    places = _decimals(max((abs(value) for value in values if math.isfinite(value)), default=1.0), 4)
    drawn = ax.barh(range(len(values)), values, color=BLUE, height=0.75)
    ax.bar_label(drawn, [_fixed(value, places) for value in values], padding=2, size=7)
    ax.set_yticks(range(len(values)), labels)
    ax.set(ylim=(len(values) - 0.4, -0.6), xlabel=unit, ylabel=axis)
    ax.margins(x=0.15)
    ax.axvline(0, color="black", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return finished(figure, title)


@styled()
def lines(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], axis: str, unit: str, title: str) -> Picture:
    """One curve for each name, told apart by colour and by dashes."""
    figure = blank(5.0, 3.0)
    ax = figure.subplots()
    colours = colormaps["cividis"](np.linspace(0.0, 0.8, len(curves)))
    for i, (name, (x, y)) in enumerate(curves.items()):
        dashes = ("-", "--", "-.", ":")[i % 4]
        ax.plot(x, y, dashes, color=tuple(colours[i]), label=line(name), marker="o" if len(x) == 1 else "")
    ax.set(xlabel=axis, ylabel=unit)
    ax.grid(color="#dddddd", linewidth=0.4)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return finished(figure, title)
