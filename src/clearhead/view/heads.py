"""Questions about the weights of heads. They need nothing but a finished recording."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clearhead.lens.rows import Weights
from clearhead.view.asked import Args, flag, one_of, only, whole
from clearhead.view.overview import THUMB, Overview
from clearhead.view.pooling import HIDDEN, block, picture, row, step_of
from clearhead.view.reading import Part, Reading

TILE = 11  # most rows and columns of an exact tile


class Answer(NamedTuple):
    """Plain data, and numbers as bytes, little-endian."""

    head: dict[str, Any]
    data: bytes = b""

    def packed(self) -> bytes:
        """The length of the head (u32, little-endian), the head as JSON, the data."""
        head = json.dumps(self.head, allow_nan=False, separators=(",", ":")).encode()
        return struct.pack("<I", len(head)) + head + self.data


class Shown(NamedTuple):
    """One reading and what has been worked out about it."""

    reading: Reading
    overviews: dict[str, Overview]
    known: dict[str, Any]  # by the questions that need the model

    def part(self, args: Args) -> Part:
        """The part that is asked about. Raises ValueError if there is none."""
        parts = {part.name: part for part in self.reading.parts}
        return parts[one_of(args, "stack", parts)]


def cells(size: int) -> int:
    """How many cells a side of a small picture has."""
    return -(-size // step_of(size, THUMB))


def overview_of(shown: Shown, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "stack")
    part = shown.part(args)
    found = shown.overviews[part.name]
    found.more(going)
    with found.lock:
        pooling = "sampled" if found.long and not found.done else "max"
        head = {"layers": [view.shape[1] for view in part.layers], "pooling": pooling}
        head |= {"rows": cells(len(part.queries)), "columns": cells(len(part.keys)), "patterns": found.patterns()}
        head |= {"statistics": found.statistics(), "done": found.done, "progress": found.progress}
        return Answer(head, found.thumbs())


def image_of(shown: Shown, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "stack", "layer", "head", "pooled")
    part = shown.part(args)
    view, head = _head(part, args)
    found = picture(view, head, flag(args, "pooled"), going)
    rows, columns = found.codes.shape
    said = {"rows": rows, "columns": columns, "row_step": found.row_step, "column_step": found.column_step}
    said |= {"row_of": _of(found.row_step, found.sampled), "column_of": _of(found.column_step, False)}
    said |= {"text": _told(rows, len(part.queries), found.row_step, found.column_step, found.sampled)}
    return Answer(said, found.codes.numpy().tobytes())


def _of(step: int, sampled: bool) -> str:
    if step == 1:
        return "exact"
    return f"first of {step}" if sampled else f"max of {step}"


def _told(rows: int, queries: int, row_step: int, column_step: int, sampled: bool) -> str:
    """What a picture shows, in one sentence."""
    across = "" if column_step == 1 else f"; columns show the highest of every {column_step} keys"
    if sampled:
        return f"{rows} of {queries:,} query rows, each exact{across}"
    down = "every query row" if row_step == 1 else f"rows show the highest of every {row_step} queries"
    return f"{down}{across}"


def _head(part: Part, args: Args) -> tuple[Weights, int]:
    layer = whole(args, "layer", len(part.layers), " layers")
    view = part.layers[layer]
    return view, whole(args, "head", view.shape[1], f" heads in layer {layer}")


def row_of(shown: Shown, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "stack", "layer", "head", "query")
    part = shown.part(args)
    view, head = _head(part, args)
    query = whole(args, "query", len(part.queries), " queries")
    weights = row(view, head, query)
    p = weights[weights > 0].double()
    entropy = abs(float(-(p * p.log2()).sum()))
    said = {"query": query, "sum": number(p.sum()), "entropy": number(entropy)}
    return Answer({**said, "effective_keys": number(2.0**entropy if len(p) else 0.0)}, floats(weights))


def tile_of(shown: Shown, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "stack", "layer", "head", "query", "key", "rows", "columns")
    part = shown.part(args)
    view, head = _head(part, args)
    top, rows = _window(args, "query", "rows", len(part.queries), " queries")
    left, columns = _window(args, "key", "columns", len(part.keys), " keys")
    weights = block(view, head, slice(top, top + rows))[:, left : left + columns]
    return Answer({"query": top, "key": left, "rows": rows, "columns": columns}, floats(weights))


def _window(args: Args, name: str, size: str, count: int, what: str) -> tuple[int, int]:
    """Where a tile round a place begins, and how many it holds; all of them where there are fewer."""
    place = whole(args, name, count, what)
    wide = whole({size: args.get(size, TILE)}, size, TILE + 1)
    wide = max(1, min(wide, count))
    return min(max(place - wide // 2, 0), count - wide), wide


def pair_of(shown: Shown, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "stack", "query", "key")
    part = shown.part(args)
    query = whole(args, "query", len(part.queries), " queries")
    key = whole(args, "key", len(part.keys), " keys")
    found: list[Tensor] = []
    for view in part.layers:
        going()
        seen, weights = view.scoring.visible.rows(slice(query, query + 1)), view.row(query)
        weights = weights if seen is None else weights.masked_fill(~seen[..., 0, :], HIDDEN)
        found.append(weights[0, :, key].float().cpu())
    return Answer({"heads": [len(layer) for layer in found]}, floats(torch.cat(found)))


def floats(values: Tensor) -> bytes:
    return values.contiguous().numpy().astype("<f4").tobytes()


def number(value: Tensor | float) -> float | None:
    return float(value) if math.isfinite(float(value)) else None
