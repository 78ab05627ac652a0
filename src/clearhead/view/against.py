"""Two looks held against each other: one text in two models, two texts in one model, or both."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.text import Text

from clearhead.view.heads import floats
from clearhead.view.html import MAX_MB, framed
from clearhead.view.page import AGAINST, alone
from clearhead.view.pairing import Compared, pairs_of, rows_of
from clearhead.view.pooling import codes
from clearhead.view.reading import Part
from clearhead.view.scene import Scene
from clearhead.view.terminal import heat_map, plain

if TYPE_CHECKING:
    from clearhead.view.look import Look

VERSION = 1  # of what the page is given
NOTEBOOK_MB = 2.0
BEGIN = 'startAgainst(document.querySelector("#clearhead"));\n'


@dataclass(frozen=True)
class Comparison:
    """How far each head moved from look a to look b. Draws itself, in a notebook to click through."""

    a: Look
    b: Look
    names: tuple[str, str]
    models: tuple[str, str]
    parts: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the paired tokens, the distance of every head (None: no number), and the head of b
        that it was held against.
        """
        return {
            "sides": [{"name": n, "model": m} for n, m in zip(self.names, self.models, strict=True)],
            "parts": [
                {
                    "name": part.name,
                    "tokens": [*part.tokens],
                    "queries": part.queries,
                    "keys": part.keys,
                    "in_place": part.in_place,
                    "distances": [[None if math.isnan(d) else d for d in row] for row in part.distances],
                    "partners": part.partners,
                }
                for part in self.parts
            ],
        }

    def moved(self, part: Compared) -> list[tuple[float, int, int]]:
        """(distance, layer, head) of every head, the one that moved most first; those that are no number last."""
        every = [(d, layer, head) for layer, row in enumerate(part.distances) for head, d in enumerate(row)]
        return sorted(every, key=lambda one: -math.inf if math.isnan(one[0]) else one[0], reverse=True)

    def picture(self, width: int = 80) -> Group:
        """What the terminal shows: the distance of every head, those that moved most, and chosen heads in full."""
        drawn: list[Text] = []
        for part in self.parts:
            counts = max(map(len, part.distances))
            padded = [[*row, *[math.nan] * (counts - len(row))] for row in part.distances]
            drawn.append(Text(f"\n{part.name}: {self._told(part)}\n"))
            drawn.append(heat_map(padded, [f"L{i}" for i in range(len(padded))], [*map(str, range(counts))], width))
            drawn.append(Text("\n" + "\n".join(self._line(part, *one) for one in self.moved(part)[: self.a.top])))
            for layer, head in self.a.heads:
                if layer < len(part.partners) and head < len(part.partners[layer]):
                    drawn += self._maps(part, layer, head, width)
        return Group(*drawn)

    def _told(self, part: Compared) -> str:
        count = sum(None not in place for place in part.queries)
        against = "" if part.in_place else ", each against the nearest of b"
        return f"how far each head moved, in percent, mean over {count} paired tokens{against}"

    def _line(self, part: Compared, apart: float, layer: int, head: int) -> str:
        other = "" if part.in_place else " and {}.{} of b".format(*part.partners[layer][head])
        return f"{100 * apart:5.1f} %  layer {layer} head {head}{other}"

    def _maps(self, part: Compared, layer: int, head: int, width: int) -> Iterator[Text]:
        sides = ((self.a, part.a, (layer, head)), (self.b, part.b, part.partners[layer][head]))
        for name, (look, side, place) in zip(self.names, sides, strict=True):
            yield Text("\n{}: {}, layer {}, head {}".format(plain(name), part.name, *place))
            yield look.map(side, *place, width)

    def __repr__(self) -> str:
        console = Console(width=100, color_system=None, highlight=False)
        with console.capture() as captured:
            console.print(self.picture(100), no_wrap=True, overflow="ignore", crop=False)
        return captured.get().rstrip("\n")

    def html(self, max_mb: float = MAX_MB) -> str:
        """One file to click through, which needs no network: both pictures of each head, their difference, every row.

        It holds exact weights if `max_mb` (10^6 bytes) has room for them, else weights rounded to one byte, and says
        so. Raises ValueError if not even these fit.
        """
        title = " | ".join(self.names)
        for exact in (True, False):
            page = alone(title, "against", AGAINST, BEGIN, self._given(exact))
            if len(page.encode()) <= max_mb * 1e6:
                return page
        raise ValueError(
            f"the page takes {len(page.encode()) / 1e6:.1f} MB, max_mb is {max_mb:g}; give more, or shorter texts"
        )

    def _given(self, exact: bool) -> dict[str, Any]:
        given: dict[str, Any] = {"version": VERSION, "exact": exact, **self.to_dict()}
        held = bytearray()
        for said, part in zip(given["parts"], self.parts, strict=True):
            for side in (part.a, part.b):
                said.setdefault("layers", []).append([view.shape[1] for view in side.layers])
                said.setdefault("starts", []).append(len(held))
                held += _weights(side, exact)
        press = zlib.compressobj(wbits=-15)
        return {**given, "data": base64.b64encode(press.compress(bytes(held)) + press.flush()).decode()}

    def _repr_html_(self) -> str | None:
        try:
            return framed(self.html(NOTEBOOK_MB))
        except ValueError:
            return None


def compare(a: Look, b: Look, scenes: tuple[Scene, Scene], names: tuple[str, str] | None) -> Comparison:
    """What `a.against(b, names)` gives; scenes: theirs."""
    parts = pairs_of(*(scene.shown.reading for scene in scenes))
    (title, model), (other_title, other_model) = (_described(scene) for scene in scenes)
    texts, models = (title, other_title), (model, other_model)
    said = [names or texts, texts, models, ("a", "b")]
    return Comparison(a, b, next(both for both in said if both[0] != both[1]), models, parts)


def _described(scene: Scene) -> tuple[str, str]:
    head = scene.ask("meta").head
    return head["title"], head["model"]


def _weights(part: Part, exact: bool) -> bytes:
    """Of every head, layer by layer, its rows one after the other."""
    layers = [rows_of(view) for view in part.layers]
    return b"".join(floats(rows) if exact else codes(rows).numpy().tobytes() for rows in layers)
