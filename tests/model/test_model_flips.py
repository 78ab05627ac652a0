"""Every field of the config has an effect: flip one at a time and the logits change, or a ValueError says why not.

Parameters are drawn from their name and shape (tiny.build), so that a flip that leaves shapes alone leaves every
number alone, and only the formula can make the difference. 44 tokens, so that buckets of distance and windows bite.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch import Tensor

from clearhead.config import (
    AnswerSpan,
    AnyHead,
    Attention,
    Bands,
    Dense,
    FeedForward,
    Head,
    Layer,
    Linear,
    LongRope,
    Norm,
    Positions,
    RelativeBias,
    Rotary,
    Stack,
    TextClassifier,
    TextEmbedding,
    TokenClassifier,
    TransformerConfig,
    Yarn,
)
from clearhead.model.transformer import Transformer
from model.tiny import VOCAB, build, text

TOKENS = 44
# What has no effect on a forward pass in eval mode, and where else it is tested.
ELSEWHERE = {
    "pad": "test_model_loss: labels are shifted with it",
    "bos": "test_model_loss: the start unless it is named",
    "eos": "generation",
    "start": "test_model_loss",
    "dropout": "test_model_loss: msk_12",
    "init_std": "test_model_init",
    "shared": "test_model_parts",
    "audio": "test_model_audio",
    "bins": "test_model_audio",
    "answer": "test_model_loss: what labels mean",
    "count": "test_model_inputs: pos_08; the sinusoids have no end of their own",
}


def attention(causal: bool = False, **changes: Any) -> Attention:
    form: dict[str, Any] = {"heads": 4, "kv_heads": 2, "head_dim": 6, "scale": 0.5, "softcap": 2.0, "bias": "qo"}
    form |= {"window": 30, "qk_norm": "head", "causal": causal}
    return Attention(**(form | changes))


def across() -> Attention:
    return attention(window=None, qk_norm=None)


def rotary(scaling: Linear | Bands | Yarn | LongRope | None) -> Rotary:
    return Rotary(theta=100.0, fraction=0.7, scaling=scaling)


def base() -> TransformerConfig:
    """Everything present at once."""
    ff = FeedForward(dim=9, activation="gelu_tanh", gated=True)
    bands = rotary(Bands(factor=3.0, low=1.0, high=4.0, length=150))
    yarn = rotary(Yarn(factor=3.0, length=150, fast=6.0, slow=0.9, attention_factor=1.2, truncate=False))
    long = rotary(LongRope(short=(1.1, 1.2), long=(2.0, 3.0), length=30, attention_factor=1.2))
    encoder = Stack(
        layers=(
            Layer(self_attention=attention(), feed_forward=ff),
            Layer(self_attention=attention(rotary=rotary(Linear(factor=2.0))), feed_forward=ff, norm_place="sandwich"),
            Layer(self_attention=attention(), feed_forward=ff, parallel=True),
            Layer(self_attention=attention(), feed_forward=ff, norm_place="output"),
            Layer(self_attention=attention(), feed_forward=ff, bare=True),
        ),
        vocab=VOCAB,
        embedding_scale=2.0,
        positions=Positions(kind="learned", count=60, offset=1),
        token_types=2,
        norm_in=True,
        norm_out=True,
        relative_bias=RelativeBias(buckets=12, max_distance=30),
    )
    decoder = Stack(
        layers=(
            Layer(self_attention=attention(True, rotary=bands), cross_attention=across(), feed_forward=ff),
            Layer(self_attention=attention(True, rotary=yarn), cross_attention=across(), feed_forward=ff),
            Layer(self_attention=attention(True, rotary=long), cross_attention=across(), feed_forward=ff),
        ),
        vocab=VOCAB,
        embedding_dim=6,
        embedding_scale=2.0,
        positions=Positions(kind="halves", count=60, offset=1),
        norm_in=True,
        norm_out=True,
        relative_bias=RelativeBias(buckets=12, max_distance=30, bidirectional=False),
    )
    head = Head(tied=True, bias=True, scale=0.5, softcap=3.0, dense=Dense(width=6, activation="gelu", norm=True))
    return TransformerConfig(dim=8, norm=Norm(eps=1e-3), encoder=encoder, decoder=decoder, head=head, dropout=0.1)


KINDS = (["layer", "layer_gain", "rms", "rms_plus_one"], ["learned", "interleaved", "halves", "halves_inclusive"])
FLIPS: dict[str, list[Any]] = {
    "layout": ["half", "pairs"],
    "activation": ["relu", "gelu", "gelu_tanh", "silu", "tanh"],
    "pool": ["first", "last", "mean", "max", "eos", "not_pad"],
    "dense": [None],
    "width": [None, 4],
    "norm_place": ["pre", "post", "output", "sandwich"],
    "qk_norm": [None, "width"],
    "bias": ["", "qkvo", "v", True, False],
    "scaling": [None],
    "embedding_dim": [None, 4],
    "rotary": [None],
    "relative_bias": [None],
    "positions": [None],
    "head": [],
    "kv_heads": [None, 1],
    "head_dim": [None, 8],
    "window": [None, 5],
    "scale": [None, 0.9],
    "softcap": [None, 0.9],
    "attention_factor": [None],
    "fraction": [0.4, 1.0],
}


def other_values(name: str, value: Any) -> list[Any]:
    if name == "kind":
        return [v for kinds in KINDS if value in kinds for v in kinds if v != value]
    if name in FLIPS:
        return [v for v in FLIPS[name] if v != value and (name != "bias" or type(v) is type(value))]
    if isinstance(value, bool):
        return [not value]
    if name == "labels":
        return [(*value, "one more")]
    if isinstance(value, tuple) and isinstance(value[0], float):
        return [tuple(2 * v for v in value)]
    return [value * 2 or 1] if isinstance(value, int | float) else []


def flips(form: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, the whole with one field changed) for every field below."""
    for f in fields(form):
        value, here = getattr(form, f.name), f"{path}.{f.name}".removeprefix(".")
        if f.name in ELSEWHERE:
            continue
        if isinstance(value, tuple) and is_dataclass(value[0]):
            for i, item in enumerate(value):
                for name, changed in flips(item, f"{here}[{i}]"):
                    yield name, _put(form, f.name, (*value[:i], changed, *value[i + 1 :]))
            yield f"{here} without the last", _put(form, f.name, value[:-1])
            continue
        if is_dataclass(value):
            for name, changed in flips(value, here):
                yield name, _put(form, f.name, changed)
        may_be_none = type(None) in get_args(get_type_hints(type(form))[f.name])
        for other in other_values(f.name, value):
            if other is None and not may_be_none:
                continue
            yield f"{here} = {other}", _put(form, f.name, other)


class Refused:
    """A config that was refused, with the reason."""

    def __init__(self, reason: str):
        self.reason = reason


def _put(form: Any, name: str, value: Any) -> Any:
    if isinstance(value, Refused):
        return value
    if isinstance(value, tuple) and any(isinstance(v, Refused) for v in value):
        return next(v for v in value if isinstance(v, Refused))
    try:
        return replace(form, **{name: value})
    except ValueError as problem:
        return Refused(str(problem))


def logits(model: Transformer) -> Tensor:
    """Of a long text, and of a short one, which turns by other angles."""
    types = torch.arange(TOKENS)[None] // 20 % 2
    long = model(text(1, TOKENS), None, text(1, TOKENS, seed=1), token_type_ids=types).logits
    return torch.cat([long, model(text(1, 9), None, text(1, 9, seed=1)).logits], dim=1)


def run(config: TransformerConfig) -> Tensor | str:
    try:
        return logits(build(config))
    except ValueError as problem:
        return str(problem)


@torch.no_grad()
def test_every_field_of_the_config_has_an_effect() -> None:
    plain = run(base())
    assert isinstance(plain, Tensor)
    idle, refused, seen = [], {}, 0
    for path, config in flips(base()):
        seen += 1
        got = config.reason if isinstance(config, Refused) else run(config)
        if isinstance(got, str):
            refused[path] = got
        elif got.shape == plain.shape and (got - plain).abs().max() < 1e-7:
            idle.append(path)
    assert seen > 150
    assert not idle, "\n".join(idle)
    for path, reason in refused.items():
        name = path.split(" = ")[0].split(".")[-1].removesuffix(" without the last")
        name = name.split("[")[0]
        assert name in reason, f"{path} is refused without its name: {reason}"
    assert len(refused) < 0.2 * seen, refused


DENSE = Dense(width=5, activation="gelu", norm=True)
HEADS = [
    *(TextClassifier(labels=("a", "b"), pool=pool, dense=DENSE) for pool in ("first", "max", "eos", "not_pad")),
    TextClassifier(labels=("a",), pool="mean"),
    TokenClassifier(labels=("a", "b"), dense=DENSE, bias=False),
    AnswerSpan(dense=replace(DENSE, bias=False)),
    TextEmbedding(pool="last", dense=DENSE, normalise=True),
]


def under(head: AnyHead) -> TransformerConfig:
    layer = Layer(self_attention=Attention(heads=2), feed_forward=FeedForward(dim=9))
    return TransformerConfig(dim=8, encoder=Stack(layers=(layer,), vocab=VOCAB), head=head, pad=0, eos=1)


@pytest.mark.parametrize("head", HEADS)
@torch.no_grad()
def test_every_field_of_the_other_heads_has_an_effect(head: AnyHead) -> None:
    ids = text(1, 9)
    ids[0, 4], ids[0, 7:] = 1, 0

    def found(config: TransformerConfig) -> Tensor:
        out = build(config)(ids)
        return out.embedding if out.logits is None else out.logits

    plain = found(under(head))
    changed = [(path, config) for path, config in flips(under(head)) if path.startswith("head")]
    others = [(path, found(config)) for path, config in changed]
    idle = [path for path, got in others if got.shape == plain.shape and (got - plain).abs().max() < 1e-7]
    assert len(others) > 1
    assert not idle, idle


def test_every_field_is_flipped_or_tested_elsewhere() -> None:
    flipped = {path.split(" = ")[0].split(".")[-1].split("[")[0].split(" ")[0] for path, _ in flips(base())}
    kinds = (TransformerConfig, Norm, Stack, Layer, Attention, FeedForward, Head, Positions, RelativeBias, Rotary)
    flipped |= {path.split(" = ")[0].split(".")[-1] for head in HEADS for path, _ in flips(under(head))}
    heads = (Dense, TextClassifier, TokenClassifier, AnswerSpan, TextEmbedding)
    every = {f.name for kind in (*kinds, *heads, Linear, Bands, Yarn, LongRope) for f in fields(kind)}
    inner = {"norm", "encoder", "decoder", "self_attention", "feed_forward", "cross_attention", "head"}
    assert every - flipped - set(ELSEWHERE) - inner == set()


@pytest.mark.parametrize("kind", ["layer", "layer_gain", "rms", "rms_plus_one"])
def test_every_parameter_has_an_effect(kind: Any) -> None:
    """Each gets a gradient that is not all zero (a bias of the keys would not: it cancels in the softmax)."""
    model = build(replace(base(), norm=Norm(kind=kind)))
    logits(model).square().sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-9]
    assert idle == []
