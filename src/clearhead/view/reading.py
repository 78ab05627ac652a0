"""One text as a model read it: every attention, its tokens, and what really came next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from clearhead.config import Head
from clearhead.formulas.attention import Scoring
from clearhead.generation.generate import generate
from clearhead.lens.inputs import arguments, at_rest, places, wanted, writes_beside
from clearhead.lens.listen import listening
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.lens.seen import Seen
from clearhead.model.transformer import Output, Transformer
from clearhead.view.spelling import running, spelled

ROOM = 64  # tokens that a model may write about which nothing was said
KINDS = (("encoder", "encoder", "self"), ("decoder", "decoder", "self"), ("cross", "decoder", "cross"))


class Stopped(Exception):  # noqa: N818  # nothing went wrong
    """Nobody waits for the answer any more."""


def always() -> None:
    """The usual `going`: nobody stops."""


@dataclass(frozen=True)
class Part:
    """One kind of attention of a model (the encoder's, the decoder's, the one across), all layers."""

    name: str  # "encoder", "decoder" or "cross"
    queries: list[str]
    keys: list[str]
    layers: list[Weights]
    ids: Tensor | None = field(default=None, compare=False)  # [T] of self-attention, if tokens are read

    @property
    def causal(self) -> bool:
        """Whether the first query, which stands before all other keys, sees none of them, in any layer."""
        first = [view.scoring.visible.rows(slice(0, 1)) for view in self.layers]
        return all(len(self.keys) == 1 if seen is None else not seen[..., 1:].any() for seen in first)


@dataclass(frozen=True)
class Reading:
    """What pictures are drawn of. From a finished recording parts and tokens are enough."""

    parts: tuple[Part, ...]
    tokens: dict[str, list[str]]  # by stack, in the form of text
    given: dict[str, Any] = field(default_factory=dict[str, Any])  # what the model was run on
    follows: tuple[int | None, ...] = ()  # by position of the last stack, the token that comes next (encoder: is there)
    hidden: Tensor | None = None  # [T D] what the head was given
    bytes: int = 0  # of memory that the recording holds
    residuals: tuple[Tensor, ...] = ()  # of the last stack: what enters layer 0, and what leaves each layer, [T D] each
    running: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # tokens in a text, if that differs

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Reading:
        """From a finished recording of one text. Raises ValueError for weights of several, and if names and weights are
        not equally many.
        """
        tokens: dict[str, list[str]] = {}
        for part in parts:
            for view in part.layers:
                if view.shape[0] != 1:
                    raise ValueError(
                        f"{part.name}: the weights are {list(view.shape)}, of {view.shape[0]} texts, and a scene shows "
                        "one: choose it with view.only(slice(i, i + 1))"
                    )
                if list(view.shape[2:]) != [len(part.queries), len(part.keys)]:
                    raise ValueError(
                        f"{part.name}: {len(part.queries)} queries and {len(part.keys)} keys are named, "
                        f"but the weights are {list(view.shape)}"
                    )
            across = part.name == "cross"
            tokens.setdefault("decoder" if across else part.name, part.queries)
            tokens.setdefault("encoder" if across else part.name, part.keys)
        return cls(tuple(parts), tokens)


class Ear:
    """Hears a forward pass only to end it when nobody waits for it."""

    def __init__(self, going: Callable[[], None]) -> None:
        self.going = going

    def text(self, stack: str, ids: Tensor | None, cache: Any) -> None: ...

    def value(self, address: str, value: Tensor) -> None:
        self.going()

    def product(self, address: str, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, opened: bool) -> None: ...


def read(model: Transformer, text: str, to: str | None = None, going: Callable[[], None] = always) -> Reading:
    """The model reads a text. to: what an encoder-decoder is to write; by default what it writes itself, greedily; ""
    = nothing yet.

    Raises ValueError for an empty text and a model without tokenizer, and as the model does for a text that it cannot
    read.
    """
    if not text.strip():
        raise ValueError("the text is empty; give some words")
    beside = writes_beside(model)
    if to is not None and not beside:
        raise ValueError("to is given, but this model has one stack only; leave it out")
    with at_rest(model):
        given = arguments(model, (text, to) if to else text)
        if not beside:
            return run(model, given, None, going)
        if to is None:
            with listening(model, ears=(Ear(going),)):
                written = generate(model, given["input_ids"], given.get("attention_mask"), max_new_tokens=_room(model))
            assert isinstance(written, Tensor)
            given["decoder_input_ids"], target = written[:, :-1], written[0, 1:]
        else:
            target = wanted(model, to)[0] if to else None
        return run(model, given, target, going)


def run(
    model: Transformer, given: dict[str, Any], target: Tensor | None = None, going: Callable[[], None] = always
) -> Reading:
    """The reading of a forward pass. target [T]: what a decoder beside an encoder is to say; None: its inputs, and
    after them nothing.
    """
    last = [*model.config.stacks][-1]
    wanted = ["*.weights", f"{last}.embed", f"{last}.*.residual"]
    with at_rest(model), record(model, wanted) as seen, listening(model, ears=(Ear(going),)):
        out: Output = model(**given)
    read, tokens = seen.texts[-1], dict[str, list[str]]()
    names: dict[str, list[str]] = {}
    flowing: dict[str, list[str]] = {}
    for stack in model.config.stacks:
        ids = read.get(stack)
        view = seen[f"{stack}.0.self.weights"]
        names[stack] = places(model, ids, stack, view.shape[2])
        tokens[stack] = names[stack] if ids is None else spelled(model, ids[0], stack)
        if ids is not None and (text := running(model, ids[0], stack)) != tokens[stack]:
            flowing[stack] = text
    assert out.hidden is not None
    residuals = tuple(seen[a][0] for a in seen if a.endswith((".embed", ".residual")))
    parts, follows = tuple(_parts(seen, names, read)), _follows(model, read, target)
    return Reading(parts, tokens, given, follows, out.hidden[0], seen.bytes, residuals, flowing)


def _room(model: Transformer) -> int:
    """How many tokens it may write: the start token takes a row of the position table too."""
    table = None if model.decoder is None else model.decoder.positions
    limit = None if table is None else table.form.count
    return ROOM if limit is None else min(ROOM, limit - 1)


def _parts(seen: Seen, names: dict[str, list[str]], read: dict[str, Tensor]) -> list[Part]:
    found: list[Part] = []
    for name, stack, part in KINDS:
        layers = [seen[a] for a in seen if a.startswith(f"{stack}.") and a.endswith(f".{part}.weights")]
        if layers:
            keys = names["encoder" if name == "cross" else stack]
            ids = read[stack][0] if part == "self" and stack in read else None
            found.append(Part(name, names[stack], keys, layers, ids))
    return found


def _follows(model: Transformer, read: dict[str, Tensor], target: Tensor | None) -> tuple[int | None, ...]:
    """Empty for a model that names no tokens."""
    if not isinstance(model.config.head, Head):
        return ()
    stack = [*model.config.stacks][-1]
    ids: list[int | None] = read[stack][0].tolist() if stack in read else []
    if stack == "encoder":
        return tuple(ids)
    return (*ids[1:], None) if target is None else tuple(target.tolist())
