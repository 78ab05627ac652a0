"""One text through a model, looked at in the terminal: a map of one head, or a table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.text import Text
from torch import Tensor

from clearhead.lens.rows import Weights
from clearhead.model.transformer import Transformer
from clearhead.view.against import Comparison, compare
from clearhead.view.html import MAX_MB, framed, html
from clearhead.view.reading import Part, Reading, read
from clearhead.view.scene import Scene, title
from clearhead.view.terminal import heat_map, plain, to_text

NOTEBOOK_MB = 2.0  # a notebook with larger cells is slow to open
MAP = 64  # tokens up to which a head is drawn as a map
STATISTICS = ("entropy", "effective_keys", "max", "distance", "self", "previous", "first")


@dataclass(frozen=True)
class Look:
    """Every attention of one forward pass. Draws itself, in a notebook to click through; `to_dict` is plain data."""

    parts: tuple[Part, ...]
    heads: tuple[tuple[int, int], ...]  # (layer, head) to show one by one; none: a table of all
    stat: str
    top: int
    scene: Scene | None = field(default=None, repr=False, compare=False)  # with the model; None: a finished recording

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the statistic of every head, and for chosen heads the largest weights of each query."""
        found: dict[str, Any] = {"stat": self.stat, "parts": []}
        for part in self.parts:
            said: dict[str, Any] = {"name": part.name, "queries": part.queries, "keys": part.keys}
            said["heads"] = [row.tolist() for row in table(part, self.stat)]
            said["shown"] = [self._rows(part, layer, head) for layer, head in self._here(part)]
            found["parts"].append(said)
        return found

    def _here(self, part: Part) -> list[tuple[int, int]]:
        return [(i, h) for i, h in self.heads if i < len(part.layers) and h < part.layers[i].shape[1]]

    def _rows(self, part: Part, layer: int, head: int) -> dict[str, Any]:
        values, places = _one(part, layer, head).top(min(self.top, len(part.keys)))
        rows = [
            [{"key": key, "token": part.keys[key], "weight": weight} for key, weight in zip(k, w, strict=True)]
            for k, w in zip(places[0, 0].tolist(), values[0, 0].tolist(), strict=True)
        ]
        return {"layer": layer, "head": head, "top": rows}

    def picture(self, width: int = 80) -> Group:
        """What the terminal shows."""
        drawn: list[Text] = []
        for part in self.parts:
            chosen = self._here(part)
            drawn += [_table(part, self.stat)] if not self.heads else []
            for layer, head in chosen:
                drawn.append(Text(f"\n{part.name}, layer {layer}, head {head}"))
                drawn.append(self.map(part, layer, head, width))
        return Group(*drawn)

    def map(self, part: Part, layer: int, head: int, width: int = 80) -> Text:
        """One head: a map, or of a long text the largest weights of each token."""
        if max(len(part.queries), len(part.keys)) <= MAP:
            return heat_map(_one(part, layer, head).dense()[0, 0].tolist(), part.queries, part.keys, width)
        lines = Text()
        for query, row in enumerate(self._rows(part, layer, head)["top"]):
            seen = ", ".join(f"{plain(cell['token'])} {cell['key']}: {100 * cell['weight']:.1f} %" for cell in row)
            lines.append(f"{query:>6} {plain(part.queries[query])}: {seen}\n")
        return lines

    def __repr__(self) -> str:
        console = Console(width=100, color_system=None, highlight=False)
        with console.capture() as captured:
            console.print(self.picture(100), no_wrap=True, overflow="ignore", crop=False)
        return captured.get().rstrip("\n")

    def html(self, max_mb: float = MAX_MB) -> str:
        """One file to click through, which needs no network; of the chosen heads it holds exact rows (see html.py)."""
        return html(self._scene(), heads=self.heads, max_mb=max_mb)

    def against(self, other: Look, names: tuple[str, str] | None = None) -> Comparison:
        """This look, a, beside another, b: of another text or of another model; how far each head moved.

        Tokens are paired (see pairing.py). Heads are compared place by place, or, where the models differ in layers or
        heads, each of a with the nearest of b. names: of the two; by default their texts, or what the models are.

        Raises ValueError if they have no kind of attention in common, and for texts of more than 512 tokens.
        """
        return compare(self, other, (self._scene(), other._scene()), names)

    def widget(self) -> Any:
        """The same for a notebook, with the model behind it. Raises ValueError if anywidget is not installed."""
        from clearhead.view.widget import widget

        return widget(self._scene())

    def _repr_html_(self) -> str | None:
        try:
            return framed(self.html(NOTEBOOK_MB))
        except ValueError:  # not even the overview fits
            return None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """What a notebook shows: the widget, and beside it the file for where no widget runs."""
        from clearhead.view.widget import bundle

        return bundle(self._scene(), str(self), self._repr_html_)

    def _scene(self) -> Scene:
        return Scene(Reading.of(self.parts)) if self.scene is None else self.scene


def look(
    model: Transformer,
    text: str,
    to: str | None = None,
    *,
    heads: Sequence[tuple[int, int]] = (),
    stat: str = "entropy",
    top: int = 8,
) -> Look:
    """Where every head of the model looks in this text.

    to: what an encoder-decoder is to write; by default what it writes itself, greedily. heads: (layer, head) pairs to
    show one by one, as a map or, for long texts, as the `top` largest weights of each token; without any, a table of
    `stat` (entropy, effective_keys, max, distance, self, previous, first) for all heads.

    Raises ValueError for an empty text, a model without tokenizer, a head that is not there, or an unknown statistic.
    """
    if stat not in STATISTICS:
        raise ValueError(f"stat={stat!r}; there are {', '.join(STATISTICS)}")
    reading = read(model, text, to)
    parts = reading.parts
    for layer, head in heads:
        if not any(layer < len(part.layers) and head < part.layers[layer].shape[1] for part in parts):
            sizes = ", ".join(f"{p.name}: {len(p.layers)} layers of {p.layers[0].shape[1]} heads" for p in parts)
            raise ValueError(f"heads: there is no {layer}.{head} (layer.head, from 0); {sizes}")
    return Look(parts, tuple(heads), stat, top, Scene(reading, model, title(text)))


def table(part: Part, stat: str) -> list[Tensor]:
    """The mean of the statistic over all queries, one row of heads [H] per layer."""
    return [view.measure(stat)[stat][0].mean(-1) for view in part.layers]


def _table(part: Part, stat: str) -> Text:
    """Layers as rows, heads as columns."""
    rows = table(part, stat)
    columns = [str(h) for h in range(max(len(row) for row in rows))]
    picture = Text(f"\n{part.name}: {stat.replace('_', ' ')} of each head, mean over {len(part.queries)} tokens\n")
    picture.append("layer " + "".join(f"{c:>8}" for c in columns))
    for i, row in enumerate(rows):
        picture.append(f"\n{i:>5} " + "".join(f"{value:>8.3f}" for value in row.tolist()))
    return picture


def _one(part: Part, layer: int, head: int) -> Weights:
    view = part.layers[layer].only(slice(0, 1), slice(head, head + 1))
    assert isinstance(view, Weights)
    return view


def as_text(found: Look | Comparison, width: int, colour: bool) -> str:
    """What `clearhead look` prints."""
    return "\n".join(
        to_text(part, colour, width) for part in found.picture(width).renderables if isinstance(part, Text)
    )
