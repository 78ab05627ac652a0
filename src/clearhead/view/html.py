"""One file that shows everything: the module and the answers to its questions, and nothing is fetched."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from clearhead.view import live
from clearhead.view.heads import Answer, floats
from clearhead.view.letters import written
from clearhead.view.page import BEGIN, document, module, policy
from clearhead.view.pooling import block
from clearhead.view.reading import Part
from clearhead.view.scene import VERSION, Scene

MAX_MB = 10.0
EXACT = 2**18  # bytes up to which the exact rows of all heads are kept
LENS = 2e10  # multiplications that the logit lens of all positions may take
SAVED = "A saved page; to ask the model itself, use clearhead serve."
ROUNDED = "A number with ≈ was rounded to one byte."
SLOW = "The logit lens of every position would take long, and was left out."
REST = 4096  # bytes of a page that are neither script nor data
HEIGHT = 760  # of the frame in a notebook, in pixels


def html(scene: Scene, *, heads: Sequence[tuple[int, int]] = (), max_mb: float = MAX_MB) -> str:
    """A page that needs nothing else: no server, no network, no notebook.

    It holds the overview, a picture of every head, and of `heads`, (layer, head) pairs, the exact rows (of a short text
    those of all heads); as much of it as `max_mb` (10^6 bytes) has room for, in this order, and it says what was left
    out. Raises ValueError if not even the overview fits.
    """
    script = f"{module()}\n{BEGIN}"
    room = max_mb * 1e6 - len(script.encode()) - len(_stored("meta", {}, scene.ask("meta"))) - REST
    kept, wanted, left_out = _fitting(scene, heads, room)
    if left_out["overviews"]:
        raise ValueError(f"max_mb={max_mb:g} has no room for the overview; give more")
    meta = _stored("meta", {}, Answer(_meta(scene, wanted, left_out, max_mb)))
    body = "".join([meta, *kept, f'<script type="module">{script}</script>\n'])
    allowed = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(script))}">\n'
    return document(scene.title or "clearhead", "embedded", body, allowed, version=str(VERSION))


def framed(page: str) -> str:
    """A page as the output of a notebook's cell: in a frame that can neither reach the notebook nor be reached."""
    quoted = page.replace("&", "&amp;").replace('"', "&quot;")  # an attribute needs no more
    return (
        f'<iframe srcdoc="{quoted}" sandbox="allow-scripts allow-downloads" title="clearhead" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
    )


def _fitting(
    scene: Scene, heads: Sequence[tuple[int, int]], room: float
) -> tuple[list[str], Counter[str], Counter[str]]:
    """The blocks that fit, and of each kind of thing how many were wanted and how many left out.

    After the first that does not fit, no more of its kind are computed.
    """
    kept, wanted, left_out = list[str](), Counter[str](), Counter[str]()
    for kind, op, args in _wanted(scene, heads):
        wanted[kind] += 1
        if not left_out[kind] and (op != "rows" or _size(scene, args) <= room):
            stored = _stored(op, args, _answer(scene, op, args))
            if len(stored) <= room:
                room -= len(stored)
                kept.append(stored)
                continue
        left_out[kind] += 1
    return kept, wanted, left_out


def _wanted(scene: Scene, heads: Sequence[tuple[int, int]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What the file should hold, the most important first: what kind of thing, the question and its arguments."""
    parts = scene.shown.reading.parts
    for part in parts:
        yield "overviews", "overview", {"stack": part.name}
    for part in parts:
        for layer, head in sorted(_heads(part), key=lambda place: place not in heads):
            yield "pictures", "image", {"stack": part.name, "layer": layer, "head": head}
    for query in _seen_through(scene):
        yield "logit lenses", "lens", {"stack": live.abilities(scene.model)["lens"][0], "query": query}
    total = sum(4 * math.prod(view.shape) for part in parts for view in part.layers)
    for part in parts:
        for layer, head in _heads(part):
            if (layer, head) in heads or total <= EXACT:
                yield "exact heads", "rows", {"stack": part.name, "layer": layer, "head": head}


def _answer(scene: Scene, op: str, args: dict[str, Any]) -> Answer:
    """The scene's; there is no page here that could ask for more of it later."""
    if op == "rows":
        part = scene.shown.part(args)
        rows = block(part.layers[args["layer"]], args["head"], slice(None))
        return Answer({"queries": rows.shape[0], "keys": rows.shape[1]}, floats(rows))
    answer = scene.ask(op, args)
    return answer._replace(head={**answer.head, "done": True}) if op == "overview" else answer


def _size(scene: Scene, args: dict[str, Any]) -> int:
    """The bytes of a head's exact rows."""
    part = scene.shown.part(args)
    return 4 * len(part.queries) * len(part.keys)


def _heads(part: Part) -> list[tuple[int, int]]:
    return [(layer, head) for layer, view in enumerate(part.layers) for head in range(view.shape[1])]


def _seen_through(scene: Scene) -> range:
    """The positions of which the logit lens is stored: all of them, unless that would take long."""
    model, reading = scene.model, scene.shown.reading
    if model is None or not live.abilities(model)["lens"]:
        return range(0)
    stack = model.last.form
    cost = len(reading.follows) * (len(stack.layers) + 1) * stack.vocab * model.config.dim
    return range(len(reading.follows) if cost <= LENS else 0)


def _meta(scene: Scene, wanted: Counter[str], left_out: Counter[str], max_mb: float) -> dict[str, Any]:
    """Nothing can be asked of a model any more, and some things were left out."""
    head = scene.ask("meta").head
    stored = wanted - left_out
    can = {**live.abilities(None), "lens": head["can"]["lens"] if stored["logit lenses"] else []}
    rounded = stored["exact heads"] < wanted["pictures"]
    left = ", ".join(f"{count} of {wanted[kind]} {kind}" for kind, count in left_out.items() if count)
    slow = head["can"]["lens"] and not wanted["logit lenses"]
    notes = [SAVED, ROUNDED if rounded else "", f"Left out, for want of room in {max_mb:g} MB: {left}." if left else ""]
    note = " ".join(words for words in [*notes, SLOW if slow else ""] if words)
    return {**head, "live": False, "can": can, "note": note, "approximate": rounded}


def _stored(op: str, args: dict[str, Any], answer: Answer) -> str:
    """A block of data, which no browser runs."""
    key = f"{op} {json.dumps(args, sort_keys=True, separators=(',', ':'))}"
    return (
        f'<script type="application/octet-stream" data-clearhead data-key="{escape(key)}">{written(answer)}</script>\n'
    )
