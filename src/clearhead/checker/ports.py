"""What goes wrong when a model is ported: one detail of the config, by name. Adding a cause is adding one entry."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from clearhead.config import Activation, Attention, Dense, FeedForward, Head, Layer, Norm, Positions, Rotary, Stack
from clearhead.config import TransformerConfig as Config

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Cause:
    """A name, what it means, and the changed configs that show it."""

    name: str
    says: str
    ways: Callable[[Config], Iterator[Config]]


def rebuilt(node: Any, change: Change) -> Any:
    """The config with every part put through `change`, leaves first. Unchecked: a mistake may be what we refuse."""
    if isinstance(node, tuple):
        return tuple(rebuilt(part, change) for part in node)
    if not dataclasses.is_dataclass(node):
        return node
    made = copy.copy(node)
    for one in dataclasses.fields(node):
        object.__setattr__(made, one.name, rebuilt(getattr(node, one.name), change))
    return change(made)


def each(kind: Any, /, **values: Any) -> Callable[[Config], Iterator[Config]]:
    """Every part of this kind with one field set to each of the values; a value may be a function of the part."""

    def ways(config: Config) -> Iterator[Config]:
        for name, options in values.items():
            for value in options:
                yield rebuilt(config, lambda part, n=name, v=value: put(part, kind, n, v))

    return ways


def put(part: Any, kind: Any, name: str, value: Any) -> Any:
    if not isinstance(part, kind):
        return part
    return replace(part, **{name: value(part) if callable(value) else value})


def turned(*changes: Change) -> Callable[[Config], Iterator[Config]]:
    return lambda config: (rebuilt(config, change) for change in changes)


def by_width(kind: Any, name: str) -> Callable[[Config], Iterator[Config]]:
    """The factors that stand for the width D: 1, sqrt(D), 1 / sqrt(D)."""
    return lambda config: each(kind, **{name: (1.0, config.dim**0.5, config.dim**-0.5)})(config)


def offsets(config: Config) -> Iterator[Config]:
    """Tables read from another row on; the rows stay as many as they are."""
    for offset in sorted({0, 1, 2, 0 if config.pad is None else config.pad + 1}):
        yield rebuilt(config, lambda part, new=offset: moved(part, new))


def moved(part: Any, offset: int) -> Any:
    if not isinstance(part, Positions):
        return part
    count = None if part.count is None else part.count + part.offset - offset
    return replace(part, offset=offset, count=count)


def other_layout(part: Any) -> Any:
    return replace(part, layout="pairs" if part.layout == "half" else "half") if isinstance(part, Rotary) else part


def bent(config: Config) -> Iterator[Config]:
    """Another activation in the feed-forward layers, in the dense layer of the head, in both."""
    for kind in (FeedForward, Dense, FeedForward | Dense):
        yield from each(kind, activation=get_args(Activation))(config)


def uncapped(config: Config) -> Iterator[Config]:
    """Without the cap on the scores, on the logits, on both."""
    for kind in (Attention, Head, Attention | Head):
        yield from each(kind, softcap=(None,))(config)


def shifted(by: int) -> Change:
    def change(part: Any) -> Any:
        if not isinstance(part, Attention) or part.window is None:
            return part
        return replace(part, window=part.window + by)

    return change


def swapped(part: Any) -> Any:
    if not isinstance(part, Norm) or part.kind == "layer":
        return part
    return replace(part, kind="rms" if part.kind == "rms_plus_one" else "rms_plus_one")


def bare(*kinds: type, without: str = "qkvo") -> Change:
    """Parts of these kinds without bias vectors; of attention, without those of the projections named."""

    def change(part: Any) -> Any:
        if isinstance(part, Attention) and Attention in kinds:
            return replace(part, bias="".join(letter for letter in part.bias if letter not in without))
        return replace(part, bias=False) if isinstance(part, FeedForward | Head) and type(part) in kinds else part

    return change


WITHOUT_BIAS = (
    bare(Attention, FeedForward, Head),
    bare(Attention, FeedForward),
    bare(Attention),
    bare(Attention, without="o"),
    bare(Attention, without="qkv"),
    bare(FeedForward),
    bare(Head),
)


CAUSES = (
    Cause("rotary-layout", "which two numbers of a head turn together", turned(other_layout)),
    Cause("rotary-theta", "the base of the rotary frequencies", each(Rotary, theta=(1e4, 5e5, 1e6))),
    Cause(
        "rotary-scaling", "the scaling of rotary frequencies for long texts is left out", each(Rotary, scaling=(None,))
    ),
    Cause("rotary-fraction", "the part of a head that turns", each(Rotary, fraction=(0.25, 0.5, 1.0))),
    Cause("rotary-missing", "the rotary positions are left out", each(Attention, rotary=(None,))),
    Cause("norm-eps", "the epsilon under the root of the norms", each(Norm, eps=(1e-5, 1e-6, 1e-8, 1e-12))),
    Cause(
        "norm-plus-one",
        "the gain of the norms is w in one and 1 + w in the other",
        turned(swapped),
    ),
    Cause("activation", "the activation of the feed-forward layers, or of the head", bent),
    Cause("embedding-scale", "the factor on the embeddings", by_width(Stack, "embedding_scale")),
    Cause("head-scale", "the factor before a tied head", by_width(Head, "scale")),
    Cause("position-offset", "the row of the position table at which a text begins", offsets),
    Cause(
        "position-kind",
        "the order of sines and cosines",
        each(Positions, kind=("interleaved", "halves", "halves_inclusive")),
    ),
    Cause("position-missing", "the position table is left out", each(Stack, positions=(None,))),
    Cause("attention-scale", "the factor on the scores", each(Attention, scale=(None, 1.0))),
    Cause("softcap-off", "the soft cap is left out", uncapped),
    Cause("window-off-by-one", "whether the window counts the query itself", turned(shifted(1), shifted(-1))),
    Cause("window-missing", "the window is left out", each(Attention, window=(None,))),
    Cause("causal", "whether later tokens are hidden", each(Attention, causal=(True, False))),
    Cause("parallel", "whether the branches read the same x", each(Layer, parallel=(True, False))),
    Cause("qk-norm-missing", "the norm of queries and keys is left out", each(Attention, qk_norm=(None,))),
    Cause("bias-missing", "bias vectors are left out", turned(*WITHOUT_BIAS)),
    Cause("norm-out-missing", "the norm after the last layer is left out", each(Stack, norm_out=(False,))),
    Cause("norm-in-missing", "the norm after the embedding is left out", each(Stack, norm_in=(False,))),
)


def changes(config: Config) -> Iterator[tuple[Cause, Config]]:
    """Every cause with every config that it leads to from this one, and that none before it does."""
    seen = {config}
    for cause in CAUSES:
        for changed in cause.ways(config):
            if changed not in seen:
                seen.add(changed)
                yield cause, changed


def first_change(old: Any, new: Any, place: str = "") -> str:
    """The first field that differs, its new value and its old one: "norm.eps 1e-06 in place of 1e-05"."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        pairs = [(str(i), *both) for i, both in enumerate(zip(old, new, strict=True))]
    elif dataclasses.is_dataclass(old) and type(old) is type(new):
        pairs = [(f.name, getattr(old, f.name), getattr(new, f.name)) for f in dataclasses.fields(old)]
    else:
        return f"{place} {new!r} in place of {old!r}"
    name, before, after = next(pair for pair in pairs if pair[1] != pair[2])
    return first_change(before, after, f"{place}.{name}" if place else name)
