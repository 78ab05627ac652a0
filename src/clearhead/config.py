"""What a model is made of: frozen dataclasses that mirror the module tree, checked once, in one place.

A model is up to two stacks, a stack is a list of layers, a layer is two or three branches. Optional parts are `None`
or present. Nothing here knows torch, and nothing here knows the name of a model family.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Literal

from clearhead import fields

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


@dataclass(frozen=True, kw_only=True)
class Norm:
    """`layer` (Ba et al. 2016), `rms` (Zhang & Sennrich 2019), or `rms_plus_one`, whose stored gain is w in (1 + w)."""

    kind: Literal["layer", "rms", "rms_plus_one"] = "layer"
    eps: float = 1e-5


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Rotary frequencies divided by `factor` (position interpolation, Chen et al. 2023)."""

    factor: float


@dataclass(frozen=True, kw_only=True)
class Bands:
    """Long wavelengths divided by `factor`, short ones kept, those between blended (Llama 3, section 3.2)."""

    factor: float
    low: float
    high: float
    length: int


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """Interpolation by frequency band with a correction of the score's temperature (Peng et al. 2023)."""

    factor: float
    length: int
    fast: float = 32.0
    slow: float = 1.0
    attention_factor: float | None = None  # None: 0.1 ln(factor) + 1
    truncate: bool = True  # whole numbers as the ends of the blended band


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotary positions (Su et al. 2021) on the first `fraction` of each head."""

    theta: float = 10000.0
    fraction: float = 1.0
    layout: Literal["half", "pairs"] = "half"  # which two numbers turn together: (i, i + E/2) or (2i, 2i + 1)
    scaling: Linear | Bands | Yarn | None = None


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Queries from x, keys and values from y. Self-attention is y = x."""

    heads: int
    kv_heads: int | None = None  # None: as many as heads
    head_dim: int | None = None  # None: dim / heads
    causal: bool = False
    window: int | None = None  # a query sees keys less than this many positions away
    scale: float | None = None  # None: 1 / sqrt(head_dim)
    softcap: float | None = None  # scores become cap * tanh(scores / cap)
    bias: str = ""  # which of the four projections carry a bias vector: letters out of "qkvo"
    qk_norm: Literal["head", "width"] | None = None  # normalise q and k per head, or over all heads together
    rotary: Rotary | None = None

    @property
    def groups(self) -> int:
        """Key/value heads (G)."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def width(self, dim: int) -> int:
        """Width of one head (E) in a model of width `dim`."""
        return dim // self.heads if self.head_dim is None else self.head_dim


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """activation(x W1) W2, or with a gate (activation(x Wg) * (x W1)) W2 (Shazeer 2020)."""

    dim: int
    activation: Activation = "relu"
    gated: bool = False
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Two or three branches, each added to the residual: x + f(x), with the norm before, after, or on both sides."""

    self_attention: Attention
    feed_forward: FeedForward
    cross_attention: Attention | None = None
    norm_place: Literal["pre", "post", "sandwich"] = "pre"
    parallel: bool = False  # all branches read the same x: x + attention(norm(x)) + feed_forward(norm(x))


@dataclass(frozen=True, kw_only=True)
class Positions:
    """What is added to the embedding of a token at position p: row p + offset of a table."""

    kind: Literal["learned", "interleaved", "halves", "halves_inclusive"]
    count: int | None = None  # rows that may be used, without the offset; None (not for learned): no limit
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class RelativeBias:
    """One learned number per head and bucket of distance, added to the scores (T5; Raffel et al. 2020, section 2.1)."""

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Embedding, layers, norms: an encoder or a decoder."""

    layers: tuple[Layer, ...]
    vocab: int
    embedding_scale: float = 1.0
    positions: Positions | None = None
    token_types: int = 0  # rows of the segment table; 0: none
    norm_in: bool = False  # a norm right after the embedding
    norm_out: bool = False  # a norm after the last layer
    relative_bias: RelativeBias | None = None


@dataclass(frozen=True, kw_only=True)
class Head:
    """From the last hidden state to one logit per token of the vocabulary."""

    tied: bool = True  # the output matrix is the embedding of the stack below it
    bias: bool = False
    scale: float = 1.0
    softcap: float | None = None
    transform: Activation | None = None  # a dense layer, this activation and a norm come first


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """One model: encoder only, decoder only, or both (then the decoder has cross-attention).

    Raises ValueError, naming the field, the numbers and the fix, if the parts do not fit together.
    """

    dim: int
    norm: Norm = field(default_factory=Norm)
    encoder: Stack | None = None
    decoder: Stack | None = None
    head: Head | None = field(default_factory=Head)  # None: the hidden states are the result
    shared_embeddings: bool = False  # encoder and decoder read the same table
    pad: int | None = None
    bos: int | None = None
    eos: int | tuple[int, ...] | None = None  # any of these ends a text
    start: int | None = None  # first token of a decoder beside an encoder; None: bos
    dropout: float = 0.0  # on embeddings, attention weights, feed-forward hidden units and every branch's output
    init_std: float | None = None  # None: Xavier (see model/init.py)

    def __post_init__(self) -> None:
        for problem in problems(self):
            raise ValueError(problem)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """All ids that end a text."""
        return self.eos if isinstance(self.eos, tuple) else () if self.eos is None else (self.eos,)

    @property
    def stacks(self) -> dict[str, Stack]:
        """The stacks that are there, by name, encoder first."""
        both = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: stack for name, stack in both.items() if stack is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Runs of equal layers are folded: {"times": 6, "layer": {...}}."""
        plain = asdict(self)
        for name in self.stacks:
            runs = [(layer, len(list(run))) for layer, run in groupby(plain[name]["layers"])]
            plain[name]["layers"] = [{"times": times, "layer": layer} for layer, times in runs]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "TransformerConfig":
        """The inverse of `to_dict`. Raises ValueError for an unknown, missing or mistyped field."""
        plain = json.loads(json.dumps(plain))  # a copy that we may unfold
        for name in ("encoder", "decoder"):
            stack: Any = plain.get(name) if isinstance(plain, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
            if isinstance(stack, dict) and isinstance(stack.get("layers"), list):
                stack["layers"] = list(fields.unfolded(stack["layers"], f"config.{name}.layers", "layer"))
        return fields.build(cls, plain, "config")


# Bounds that hold for a number wherever it stands.
AT_LEAST = {
    **dict.fromkeys(["dim", "vocab", "heads", "kv_heads", "head_dim", "window", "count", "length", "max_distance"], 1),
    **dict.fromkeys(["offset", "token_types", "eps", "low", "slow"], 0),
    "buckets": 2,
}
POSITIVE = {"embedding_scale", "softcap", "theta", "fraction", "factor", "attention_factor", "init_std"}


def problems(config: TransformerConfig) -> Iterator[str]:
    """Every way in which the parts do not fit together, one sentence each: field, numbers, fix."""
    yield from fields.out_of_bounds(config, AT_LEAST, POSITIVE)
    if not config.stacks:
        yield "encoder and decoder are both None; a model needs at least one stack"
    if config.shared_embeddings and (config.encoder is None or config.decoder is None):
        yield "shared_embeddings is True, but there is only one stack; set it to False"
    if config.encoder and config.decoder and config.shared_embeddings and config.encoder.vocab != config.decoder.vocab:
        yield (
            f"shared_embeddings needs one vocabulary, but encoder.vocab is {config.encoder.vocab} "
            f"and decoder.vocab is {config.decoder.vocab}"
        )
    if not 0.0 <= config.dropout < 1.0:
        yield f"dropout is {config.dropout}; it must be in [0, 1)"
    vocab = (config.decoder or config.encoder or Stack(layers=(), vocab=1)).vocab
    single = (("pad", config.pad), ("bos", config.bos), ("start", config.start))
    for name, value in (*single, *(("eos", value) for value in config.eos_ids)):
        if value is not None and not 0 <= value < vocab:
            yield f"{name} is {value}, but the vocabulary has {vocab} tokens (0 to {vocab - 1})"
    for name, stack in config.stacks.items():
        yield from _stack_problems(name, stack, config)


def _stack_problems(name: str, stack: Stack, config: TransformerConfig) -> Iterator[str]:
    if not stack.layers:
        yield f"{name}.layers is empty; a stack needs at least one layer"
    if stack.positions is not None and stack.positions.kind == "learned" and stack.positions.count is None:
        yield f"{name}.positions.count is None; a learned table needs its number of rows"
    counts = {layer.self_attention.heads for layer in stack.layers}
    if stack.relative_bias is not None and len(counts) > 1:
        yield f"{name}.relative_bias is one table for the stack, but its layers have {sorted(counts)} heads"
    if (bias := stack.relative_bias) is not None:
        narrow = bias.buckets // (4 if bias.bidirectional else 2)  # buckets one step wide
        if narrow < 1 or bias.max_distance <= narrow:
            yield (
                f"{name}.relative_bias.buckets is {bias.buckets} and max_distance {bias.max_distance}; "
                f"use at least 4 buckets, and a distance above {max(narrow, 1)}"
            )
    for i, layer in enumerate(stack.layers):
        place = f"{name}.layers[{i}]"
        if layer.parallel and layer.norm_place != "pre":
            yield f"{place}.parallel needs norm_place 'pre', not {layer.norm_place!r}"
        if name == "decoder" and not layer.self_attention.causal:
            yield f"{place}.self_attention.causal is False; a decoder must not see the future (an encoder may)"
        expected = name == "decoder" and config.encoder is not None
        if (layer.cross_attention is not None) != expected:
            yield f"{place}.cross_attention must be {'present beside an encoder' if expected else 'None without one'}"
        yield from _attention_problems(f"{place}.self_attention", layer.self_attention, config.dim)
        if layer.cross_attention is not None:
            yield from _attention_problems(f"{place}.cross_attention", layer.cross_attention, config.dim)
            yield from _cross_problems(f"{place}.cross_attention", layer.cross_attention)


def _attention_problems(place: str, a: Attention, dim: int) -> Iterator[str]:
    if a.heads % a.groups:
        yield f"{place}: heads {a.heads} is not a multiple of kv_heads {a.groups}"
    elif a.head_dim is None and dim % a.heads:
        yield f"{place}: dim {dim} is not divisible by heads {a.heads}; change one of them or set head_dim"
    elif a.rotary is not None:
        yield from _rotary_problems(f"{place}.rotary", a.rotary, a.width(dim))
    if not set(a.bias) <= set("qkvo"):
        yield f"{place}.bias is {a.bias!r}; it may hold the letters q, k, v and o only"


def _rotary_problems(place: str, rotary: Rotary, width: int) -> Iterator[str]:
    if rotary.fraction > 1:
        yield f"{place}.fraction is {rotary.fraction}; it is a share of head_dim, at most 1"
    if (turned := int(width * rotary.fraction)) % 2 or not turned:
        yield f"{place} turns pairs of numbers, but head_dim {width} * fraction {rotary.fraction} is {turned}"
    scaling = rotary.scaling
    if isinstance(scaling, Bands) and scaling.low >= scaling.high:
        yield f"{place}.scaling.low is {scaling.low}; it must be below high, {scaling.high}"
    if isinstance(scaling, Yarn) and scaling.slow >= scaling.fast:
        yield f"{place}.scaling.slow is {scaling.slow}; it must be below fast, {scaling.fast}"


def _cross_problems(place: str, a: Attention) -> Iterator[str]:
    if a.causal or a.window is not None or a.rotary is not None:
        yield f"{place}: causal, window and rotary compare positions of one text; leave them out of cross-attention"
