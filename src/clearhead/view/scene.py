"""What is shown, as plain data: every host (a page, a notebook, a saved file) only carries questions and answers.

Nothing is ever as large as queries x keys. Layers, heads, queries and keys are counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import shorten
from typing import Any

from clearhead.model.transformer import Transformer
from clearhead.view import live
from clearhead.view.asked import Args, one_of, only, whole, words
from clearhead.view.heads import TILE, Answer, Shown, cells, floats, image_of, overview_of, pair_of, row_of, tile_of
from clearhead.view.overview import PATTERNS, Overview
from clearhead.view.pooling import SIDE
from clearhead.view.reading import KINDS, Part, Reading, always, read

VERSION = 1  # of questions and answers
TEXT = 20_000  # characters of a text that is asked about
OUT = 64  # heads that may be taken out together
STEPS = 16  # tokens that may be added at once


class Scene:
    """Answers questions about one text: `Scene(Reading.of(parts))`, `Scene(read(model, text), model)`."""

    def __init__(self, reading: Reading, model: Transformer | None = None, title: str = "") -> None:
        """model: what made the reading, if questions that need it shall be answered. title: shown as it is."""
        self.model, self.title = model, title
        self.show(reading)

    def show(self, reading: Reading) -> None:
        """Go on with another reading."""
        self.shown = Shown(reading, {part.name: Overview(part) for part in reading.parts}, {})

    def copy(self) -> Scene:
        """Another scene of the same reading, which goes its own way; what has been worked out is shared."""
        new = Scene(self.shown.reading, self.model, self.title)
        new.shown = self.shown
        return new

    def ask(self, op: str, args: Any = None, going: Callable[[], None] = always) -> Answer:
        """One answer. `going` is called now and then while it is computed, to stop by an exception.

        Raises ValueError, one sentence with the numbers, for a question that cannot be answered.
        """
        asked = one_of({"question": op}, "question", QUESTIONS)
        given = {} if args is None else args
        if not isinstance(given, dict):
            raise ValueError(f"the arguments are a {type(given).__name__}; give an object of arguments")
        if asked in RECORDED:
            return RECORDED[asked](self.shown, given, going)
        return OTHER[asked](self, given, going)


def title(text: str) -> str:
    """A text as a page's title: its beginning, on one line."""
    return shorten(text, 60, placeholder=" ...")


def _meta(scene: Scene, args: Args, going: Callable[[], None]) -> Answer:
    only(args)
    reading, model = scene.shown.reading, scene.model
    parts = {part.name: part for part in reading.parts}
    stacks = [_stack(parts[name]) if name in parts else _missing(name, model) for name, _, _ in KINDS]
    head = {"version": VERSION, "title": scene.title, "model": _name(model), "live": model is not None}
    head |= {"stacks": stacks, "tokens": reading.tokens, "running": reading.running, "patterns": [*PATTERNS.items()]}
    head |= {"statistics": {name: [*overview.names] for name, overview in scene.shown.overviews.items()}}
    head |= {"can": live.abilities(model), "limits": {"side": SIDE, "tile": TILE, "characters": TEXT, "steps": STEPS}}
    return Answer(head)


def _stack(part: Part) -> dict[str, Any]:
    across, queries, keys = part.name == "cross", len(part.queries), len(part.keys)
    found: dict[str, Any] = {"id": part.name, "layers": [view.shape[1] for view in part.layers]}
    found |= {"queries": queries, "keys": keys, "causal": part.causal}
    found |= {"thumb": {"rows": cells(queries), "columns": cells(keys)}}
    tokens = ("decoder", "encoder") if across else (part.name, part.name)
    return found | {"query_tokens": tokens[0], "key_tokens": tokens[1]}


def _missing(name: str, model: Transformer | None) -> dict[str, Any]:
    who = "the recording" if model is None else "this model"
    return {"id": name, "missing": f"{who} has no {'cross-attention' if name == 'cross' else name}"}


def _name(model: Transformer | None) -> str:
    if model is None:
        return "a recording"
    stacks = [f"{name} of {len(stack.layers)} layers" for name, stack in model.config.stacks.items()]
    return f"{' and '.join(stacks)}, width {model.config.dim}"


def _lens(scene: Scene, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "stack", "query")
    model, shown = _model(scene, "lens"), scene.shown
    stack = live.last_of(model)
    one_of(args, "stack", (stack,))
    query = whole(args, "query", len(shown.reading.follows), f" positions in the {stack}")
    with live.alone(going):
        layers = live.lens(model, shown.reading, query)
    return Answer({"query": query, "layers": layers})


def _ablate(scene: Scene, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "heads", "query")
    model, shown = _model(scene, "ablate"), scene.shown
    query = whole(args, "query", len(shown.reading.follows), " positions")
    given = args.get("heads", [])
    if not isinstance(given, list) or len(given) > OUT or not all(isinstance(head, dict) for head in given):
        raise ValueError(f"heads: give a list of at most {OUT} objects of stack, layer, head and how")
    heads = [_out(scene, head) for head in given]
    with live.alone(going):
        if "sure" not in shown.known:
            shown.known["sure"] = live.log_probabilities(model, shown.reading, shown.reading.follows, going)
        head, difference = live.without(model, shown.reading, shown.known["sure"], heads, query, going)
    return Answer(head, floats(difference))


def _out(scene: Scene, args: Args) -> live.Out:
    only(args, "stack", "layer", "head", "how")
    part = scene.shown.part(args)
    layer = whole(args, "layer", len(part.layers), " layers")
    head = whole(args, "head", part.layers[layer].shape[1], f" heads in layer {layer}")
    return live.Out(part.name, layer, head, one_of(args, "how", live.HOW))


def _look(scene: Scene, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "text", "to")
    model = _model(scene, "look")
    text, to = words(args, "text", TEXT), words(args, "to", TEXT)
    with live.alone(going):
        scene.show(read(model, text or "", to, going))
    return _meta(scene, {}, going)


def _step(scene: Scene, args: Args, going: Callable[[], None]) -> Answer:
    only(args, "count")
    model = _model(scene, "step")
    count = whole({"count": args.get("count", 1)}, "count", STEPS + 1)
    with live.alone(going):
        reading, said = scene.shown.reading, dict[str, Any]()
        for _ in range(count):
            token, top = live.next_token(model, reading)
            said = {"token": top[0]["token"], "id": token, "top": top, "done": token in model.config.eos_ids}
            if said["done"]:
                break
            reading = live.longer(model, reading, token, going)
        scene.show(reading)
    return Answer(said)


def _model(scene: Scene, op: str) -> Transformer:
    """Raises ValueError for a question that this model, or a recording, cannot answer."""
    if scene.model is None:
        raise ValueError(f"{op} needs the model, and this is a recording")
    if not live.abilities(scene.model)[op]:
        raise ValueError(REASONS[op])
    return scene.model


REASONS = {
    "lens": "this model's head names no tokens, so no layer can be asked what it would say",
    "ablate": "this model's head names no tokens, so there is nothing to compare",
    "look": "this model reads no text: it has no tokenizer, or it hears sound",
    "step": "this model writes no text",
}
RECORDED = {"overview": overview_of, "image": image_of, "row": row_of, "tile": tile_of, "pair": pair_of}
OTHER = {"meta": _meta, "lens": _lens, "ablate": _ablate, "look": _look, "step": _step}
QUESTIONS = (*OTHER, *RECORDED)
