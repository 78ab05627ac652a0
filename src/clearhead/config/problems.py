"""Every way in which the parts of a model do not fit together: one sentence each, with field, numbers and fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clearhead import fields
from clearhead.config.parts import (
    AnyHead,
    Attention,
    Bands,
    Head,
    LongRope,
    Rotary,
    Stack,
    TextClassifier,
    TextEmbedding,
    TokenClassifier,
    Yarn,
)

if TYPE_CHECKING:
    from clearhead.config.model import TransformerConfig

# Bounds that hold for a number wherever it stands.
AT_LEAST = {
    **dict.fromkeys(["dim", "heads", "kv_heads", "head_dim", "window", "count", "length", "max_distance"], 1),
    **dict.fromkeys(["embedding_dim", "bins", "width"], 1),
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
    if config.shared_embeddings and config.encoder and config.decoder:
        for field in ("vocab", "embedding_dim"):
            read, write = getattr(config.encoder, field), getattr(config.decoder, field)
            if read != write:
                yield f"shared_embeddings needs one table, but encoder.{field} is {read} and decoder.{field} is {write}"
    if not 0.0 <= config.dropout < 1.0:
        yield f"dropout is {config.dropout}; it must be in [0, 1)"
    vocab = (config.decoder or config.encoder or Stack(layers=(), vocab=1)).vocab
    single = (("pad", config.pad), ("bos", config.bos), ("start", config.start))
    for name, value in (*single, *(("eos", value) for value in config.eos_ids)):
        if value is not None and not 0 <= value < vocab:
            yield f"{name} is {value}, but the vocabulary has {vocab} tokens (0 to {vocab - 1})"
    for name, stack in config.stacks.items():
        yield from _input_problems(name, stack)
        yield from _stack_problems(name, stack, config)
    if isinstance(config.head, Head):
        yield from _head_problems(config.head, config)
    elif config.head is not None:
        yield from _task_problems(config.head, config)


def _head_problems(head: Head, config: TransformerConfig) -> Iterator[str]:
    last = config.decoder or config.encoder
    if last and last.audio:
        yield "head is set, but encoder.audio is set and there is no decoder: no token is written; set head to None"
    table = (last and last.embedding_dim) or config.dim
    width = (head.dense and head.dense.width) or config.dim
    if head.tied and table != width:
        yield (
            f"head.tied needs states as wide as the table, {table} (embedding_dim), but they are {width}; "
            f"set head.dense.width to {table}, or head.tied to False"
        )


def _task_problems(head: AnyHead, config: TransformerConfig) -> Iterator[str]:
    if isinstance(head, TextClassifier | TokenClassifier) and not head.labels:
        yield "head.labels is empty; name at least one"
    hears = config.encoder is not None and config.encoder.audio is not None
    if isinstance(head, TextClassifier | TextEmbedding):
        if head.pool == "eos" and not config.eos_ids:
            yield "head.pool is 'eos', but eos is None; set it, or pool to 'last'"
        if head.pool in ("eos", "not_pad") and hears:
            yield f"head.pool is {head.pool!r}, a token, but the encoder hears sound; use 'mean'"
    if config.reads_twice and hears:
        yield f"head is a {type(head).__name__}, for which the decoder reads the text again, but there is sound"


def _input_problems(name: str, stack: Stack) -> Iterator[str]:
    """What comes in: tokens or audio."""
    if stack.audio is None and stack.vocab < 1:
        yield f"{name}.vocab is {stack.vocab}; it must be at least 1 (0 is for a stack with audio)"
    if stack.audio is not None:
        if name == "decoder":
            yield "decoder.audio is set; a decoder writes tokens, audio goes into an encoder"
        tokens = {"vocab": stack.vocab, "token_types": stack.token_types, "embedding_dim": stack.embedding_dim}
        for field, value in tokens.items():
            if value:
                yield f"{name}.{field} is {value}, but {name}.audio is set: no token comes in; leave one of them out"


def _stack_problems(name: str, stack: Stack, config: TransformerConfig) -> Iterator[str]:
    if not stack.layers:
        yield f"{name}.layers is empty; a stack needs at least one layer"
    if stack.shared is not None:
        yield from _shared_problems(name, stack, stack.shared)
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
        for part in ("parallel", "bare"):
            if getattr(layer, part) and layer.norm_place != "pre":
                yield f"{place}.{part} needs norm_place 'pre', not {layer.norm_place!r}"
        if name == "decoder" and not layer.self_attention.causal:
            yield f"{place}.self_attention.causal is False; a decoder must not see the future (an encoder may)"
        expected = name == "decoder" and config.encoder is not None
        if (layer.cross_attention is not None) != expected:
            yield f"{place}.cross_attention must be {'present beside an encoder' if expected else 'None without one'}"
        yield from _attention_problems(f"{place}.self_attention", layer.self_attention, config.dim)
        if layer.cross_attention is not None:
            yield from _attention_problems(f"{place}.cross_attention", layer.cross_attention, config.dim)
            yield from _cross_problems(f"{place}.cross_attention", layer.cross_attention)


def _shared_problems(name: str, stack: Stack, shared: tuple[int, ...]) -> Iterator[str]:
    if len(shared) != len(stack.layers):
        yield f"{name}.shared has {len(shared)} numbers, but there are {len(stack.layers)} layers; give one for each"
        return
    if list(dict.fromkeys(shared)) != list(range(max(shared) + 1)):
        yield f"{name}.shared is {shared}; sets of weights are counted from 0, in the order in which they come first"
    for first, layer, number in zip(map(shared.index, shared), stack.layers, shared, strict=True):
        if layer != stack.layers[first]:
            yield f"{name}.shared gives unlike layers the same weights, set {number}; give each form its own"


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
    if isinstance(scaling, LongRope):
        for name, factors in (("short", scaling.short), ("long", scaling.long)):
            if len(factors) != turned // 2:
                yield (
                    f"{place}.scaling.{name} has {len(factors)} numbers, but head_dim {width} * fraction "
                    f"{rotary.fraction} is {turned // 2} pairs; give one for each pair"
                )
            if min(factors, default=1.0) <= 0:
                yield f"{place}.scaling.{name} holds {min(factors)}; each must be above 0"


def _cross_problems(place: str, a: Attention) -> Iterator[str]:
    if a.causal or a.window is not None or a.rotary is not None:
        yield f"{place}: causal, window and rotary compare positions of one text; leave them out of cross-attention"
