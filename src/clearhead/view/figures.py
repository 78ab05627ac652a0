"""Figures for papers and notebooks: a head, all heads, one row, any table, positions, training curves."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from clearhead.lens.rows import Weights, index
from clearhead.lens.table import Table
from clearhead.model.position import PositionTable
from clearhead.view.look import Look, Part, table
from clearhead.view.panels import of_head, of_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES = ("linear", "sqrt", "log")
KINDS = ("svg", "png", "pdf")
LONG = 200  # most bars of one figure
SMALL = 96  # cells along one side of a small picture


def plot(thing: Any, **options: Any) -> Figure:
    """A figure of whatever clearhead answers with. Rows are queries, columns are keys; hatched cells are hidden.

    thing: the weights of an attention (`seen["decoder.5.self.weights"]`; all heads, or one by `head`, or one of its
    rows by `head` and `query`), a look (its chosen heads, or its table), a part of a look (layers x heads, or one by
    `layer` and `head`), a table of the lens of one to three axes, a model's position table, or the path of a training
    log (JSON lines of step and loss). options: those of the function below that draws it.

    Raises ValueError for anything else, for numbers that a scale cannot show, and if matplotlib is not installed.
    """
    match thing:
        case Weights():
            return weights_figure(thing, **options)
        case Look():
            return look_figure(thing, **options)
        case Part():
            return part_figure(thing, **options)
        case Table():
            return table_figure(thing, **options)
        case PositionTable():
            return positions_figure(thing, **options)
        case str() | Path():
            return curves_figure(Path(thing), **options)
        case _:
            raise ValueError(
                f"{type(thing).__name__} has no figure; give weights, a look, one of its parts, a table, a position "
                "table, or the path of a training log"
            )


def save(figure: Figure, path: str | Path, kind: str | None = None) -> None:
    """Write a figure as svg, png or pdf, by the name's ending or by `kind`; the same figure gives the same bytes.

    In SVG letters are outlines, so it looks the same everywhere; in PDF they are text in an embedded font. Raises
    ValueError as `writable` does.
    """
    kind = writable(path, kind)
    from clearhead.view import canvas

    canvas.save(figure, Path(path), kind)


def writable(path: str | Path, kind: str | None = None) -> str:
    """What kind of file it would be: svg, png or pdf.

    Raises ValueError for another kind, for a folder that is not there, and if matplotlib is not installed.
    """
    path = Path(path)
    kind = path.suffix[1:].lower() if kind is None else kind
    if kind not in KINDS:
        raise ValueError(f"{path.name}: a figure cannot be written as {kind!r}; use {', '.join(KINDS)}")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; make it first")
    _drawing()
    return kind


def weights_figure(
    view: Weights,
    *,
    head: int | None = None,
    query: int | None = None,
    sample: int = 0,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    top: int = 10,
    scale: str = "sqrt",
    title: str = "",
) -> Figure:
    """One head's weights with tokens on both axes; without `head` all of them, small; with `query` one row's top keys.

    queries, keys: the tokens, by default their positions. More than 1024 along a side are pooled by blocks, and the
    title says so. scale: linear, sqrt (small weights stay visible) or log (from 1e-5).
    """
    if head is None and query is not None:
        raise ValueError(f"query={query} is one row of one head; give head too")
    if head is None:
        return grid_figure([view], sample=sample, scale=scale, title=title)
    if query is not None:
        return row_figure(view, head, query, sample=sample, queries=queries, keys=keys, top=top, title=title)
    panel = of_head(view, head, sample, queries=queries, keys=keys, title=title)
    return _drawing().maps([panel], _known(scale), "weight", "")


def grid_figure(layers: Sequence[Weights], *, sample: int = 0, scale: str = "sqrt", title: str = "") -> Figure:
    """All heads of some layers, each a small picture: layers as rows, heads as columns."""
    rows = [[of_head(view, head, sample, SMALL) for head in range(view.shape[1])] for view in layers]
    return _drawing().thumbnails(rows, _known(scale), title)


def row_figure(
    view: Weights,
    head: int,
    query: int,
    *,
    sample: int = 0,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    top: int = 10,
    title: str = "",
) -> Figure:
    """What one query looks at: its `top` keys, largest first, and all the others together."""
    row = view[sample, head, query].detach().double().cpu()
    values, places = row.topk(min(top, len(row)))
    read = _drawing().readable
    labels = [str(i) if keys is None else f"\u200e{read(keys[i])} {i}" for i in places.tolist()]  # left to right
    numbers: list[float] = values.tolist()
    rest = len(row) - len(numbers)
    if rest:
        labels, numbers = [*labels, f"{rest} other keys"], [*numbers, max(0.0, float(row.sum()) - sum(numbers))]
    said = "" if queries is None else f" {read(queries[query])}"
    return _drawing().bars(numbers, labels, "weight", title or f"head {head}, query {query}{said}", "key")


def look_figure(found: Look, *, scale: str = "sqrt", title: str = "") -> Figure:
    """The heads that the look was asked for, each with its tokens; none: its statistic of all heads."""
    if not found.heads:
        tables = [replace(of_table(part_table(part, found.stat))[0], title=part.name) for part in found.parts]
        return _drawing().maps(tables, "linear", found.stat.replace("_", " "), title)
    panels = [
        of_head(part.layers[layer], head, 0, queries=part.queries, keys=part.keys, title=f"{part.name} {layer}.{head}")
        for layer, head in found.heads
        for part in found.parts
        if layer < len(part.layers) and head < part.layers[layer].shape[1]
    ]
    return _drawing().maps(panels, _known(scale), "weight", title)


def part_figure(part: Part, *, layer: int | None = None, title: str = "", **options: Any) -> Figure:
    """All heads of all layers, small; with `layer` and `head` one of them with its tokens, or one `query` of it."""
    if layer is None:
        return grid_figure(part.layers, title=title or part.name, **options)
    view = part.layers[index("layer", layer, len(part.layers))]
    said = [f"{name} {options[name]}" for name in ("head", "query") if name in options]
    named = {"queries": part.queries, "keys": part.keys} if "head" in options else {}
    title = title or ", ".join([part.name, f"layer {layer}", *said])
    return weights_figure(view, title=title, **named, **options)


def part_table(part: Part, stat: str) -> Table:
    """A statistic of every head, [layer, head], the mean over all queries."""
    rows = table(part, stat)
    values = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=math.nan)
    axes = {name: [str(i) for i in range(n)] for name, n in zip(("layer", "head"), values.shape, strict=True)}
    return Table(part.name, axes, values, stat)


def table_figure(found: Table, *, scale: str = "linear", title: str = "") -> Figure:
    """Any table: bars for one axis, a map for two, a map for each place of the shortest axis for three."""
    title = title or found.title
    if len(found.axes) == 1:
        (axis, labels), values = next(iter(found.axes.items())), found.values.tolist()
        if len(values) > LONG:
            raise ValueError(f"{axis} has {len(values)} places, a figure at most {LONG} bars; cut the table")
        return _drawing().bars(values, [*map(_drawing().readable, labels)], found.unit, title, axis)
    return _drawing().maps(of_table(found), _known(scale), found.unit, title)


def positions_figure(form: PositionTable, *, count: int = 128, title: str = "") -> Figure:
    """The position table of a model, position x channel: the sinusoids of Vaswani et al. 2017, or what was learned."""
    count = min(count, form.form.count or count)
    with torch.no_grad():
        weight = next(form.parameters(), torch.empty(0))
        values = form(torch.arange(count, device=weight.device), torch.float32)
    axes = {name: [str(i) for i in range(n)] for name, n in zip(("position", "channel"), values.shape, strict=True)}
    kind = form.form.kind
    said = "learned positions" if kind == "learned" else f"sinusoidal positions ({kind.replace('_', ' ')})"
    return table_figure(Table(said, axes, values), title=title)


def curves_figure(log: Path, *, title: str = "") -> Figure:
    """Training curves: every field of a JSON-lines log whose name ends in "loss", over its "step"."""
    if not log.is_file():
        raise ValueError(f"{log} is no file; give the path of a training log, JSON lines of step and loss")
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for number, words in enumerate(log.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(words) if words.strip() else {}
            found = {name: float(line[name]) for name in line if name.endswith("loss") and line[name] is not None}
            for name, value in found.items():
                x, y = curves.setdefault(name, ([], []))
                x.append(float(line["step"]))
                y.append(value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{log}, line {number} is no JSON object with step and loss: {words[:60]!r}") from error
    if not curves:
        raise ValueError(f'{log} has no loss; each line is to be like {{"step": 10, "loss": 2.5}}')
    return _drawing().lines(curves, "step", "loss", title)


def _known(scale: str) -> str:
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r}; there are {', '.join(SCALES)}")
    return scale


def _drawing() -> ModuleType:
    """The page that draws, which needs matplotlib."""
    try:
        from clearhead.view import drawing
    except ImportError as error:
        raise ValueError("figures need matplotlib; install it with: pip install clearhead[view]") from error
    return drawing
