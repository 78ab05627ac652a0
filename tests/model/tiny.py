"""Small models of every kind, with sizes that are all different and every number of them random."""

import zlib

import torch
from torch import Tensor

from clearhead.config import (
    Attention,
    Dense,
    FeedForward,
    Head,
    Layer,
    Norm,
    Positions,
    RelativeBias,
    Rotary,
    Stack,
    TransformerConfig,
)
from clearhead.model.transformer import Transformer

VOCAB = 41


def post_norm_translator(**changes: object) -> TransformerConfig:
    """As in the paper: post-norm, relu, sinusoids, embeddings times sqrt(dim), one table for all."""
    own, ahead = Attention(heads=3, bias="qkvo"), Attention(heads=3, bias="qkvo", causal=True)
    ff = FeedForward(dim=17)
    form = {"vocab": VOCAB, "embedding_scale": 12**0.5, "positions": Positions(kind="interleaved")}
    encoder = Stack(layers=(Layer(self_attention=own, feed_forward=ff, norm_place="post"),) * 2, **form)  # type: ignore
    layer = Layer(self_attention=ahead, cross_attention=own, feed_forward=ff, norm_place="post")
    decoder = Stack(layers=(layer,) * 2, **form)  # type: ignore
    settings = {"pad": 0, "bos": 1, "eos": 2, "shared_embeddings": True}
    return TransformerConfig(dim=12, encoder=encoder, decoder=decoder, **(settings | changes))  # type: ignore


def relative_translator() -> TransformerConfig:
    """Biases by distance, no scale, rms norms, no bias vectors, a gated branch, grouped heads across."""
    own = Attention(heads=3, head_dim=5, scale=1.0)
    ahead = Attention(heads=3, head_dim=5, scale=1.0, causal=True)
    across = Attention(heads=6, kv_heads=2, head_dim=3, scale=0.7)
    ff = FeedForward(dim=13, activation="gelu_tanh", gated=True, bias=False)
    both = RelativeBias(buckets=8, max_distance=20)
    back = RelativeBias(buckets=6, max_distance=11, bidirectional=False)
    encoder = Stack(
        layers=(Layer(self_attention=own, feed_forward=ff),) * 2, vocab=31, norm_out=True, relative_bias=both
    )
    layer = Layer(self_attention=ahead, cross_attention=across, feed_forward=ff)
    decoder = Stack(layers=(layer,) * 2, vocab=VOCAB, norm_out=True, relative_bias=back)
    head = Head(tied=True, scale=11**-0.5)
    return TransformerConfig(
        dim=11, norm=Norm(kind="rms", eps=1e-6), encoder=encoder, decoder=decoder, head=head, pad=0, start=0
    )


def learned_decoder() -> TransformerConfig:
    """Pre-norm, learned positions that do not begin in row 0."""
    layer = Layer(
        self_attention=Attention(heads=3, bias="qkvo", causal=True), feed_forward=FeedForward(dim=19, activation="gelu")
    )
    positions = Positions(kind="learned", count=48, offset=2)
    return TransformerConfig(
        dim=12, decoder=Stack(layers=(layer,) * 2, vocab=VOCAB, positions=positions, norm_out=True)
    )


def rotary_decoder() -> TransformerConfig:
    """Rotary, rms, grouped heads, a silu gate, an untied head."""
    attention = Attention(heads=4, kv_heads=2, head_dim=6, causal=True, rotary=Rotary(theta=500.0))
    layer = Layer(self_attention=attention, feed_forward=FeedForward(dim=19, activation="silu", gated=True, bias=False))
    stack = Stack(layers=(layer,) * 2, vocab=VOCAB, norm_out=True)
    return TransformerConfig(dim=10, norm=Norm(kind="rms"), decoder=stack, head=Head(tied=False, bias=True))


def window_decoder() -> TransformerConfig:
    """Sandwich norms, windows in every other layer, soft caps, norms on q and k, two rotary bases."""
    near = Attention(
        heads=4, kv_heads=1, head_dim=4, causal=True, window=3, softcap=3.0, qk_norm="head", rotary=Rotary(theta=100.0)
    )
    far = Attention(
        heads=4, kv_heads=1, head_dim=4, causal=True, qk_norm="width", bias="qk", rotary=Rotary(theta=1e4, fraction=0.5)
    )
    ff = FeedForward(dim=19, activation="gelu_tanh", gated=True, bias=False)
    layers = tuple(Layer(self_attention=a, feed_forward=ff, norm_place="sandwich") for a in (near, far, near))
    stack = Stack(layers=layers, vocab=VOCAB, norm_out=True, embedding_scale=10**0.5)
    return TransformerConfig(dim=10, norm=Norm(kind="rms_plus_one"), decoder=stack, head=Head(softcap=5.0))


def parallel_decoder() -> TransformerConfig:
    """Both branches read the same x; rotary in pairs on a part of the head."""
    attention = Attention(heads=3, causal=True, bias="qkvo", rotary=Rotary(fraction=0.5, layout="pairs"))
    layer = Layer(self_attention=attention, feed_forward=FeedForward(dim=17, activation="gelu"), parallel=True)
    return TransformerConfig(dim=12, decoder=Stack(layers=(layer,) * 2, vocab=VOCAB, norm_out=True, norm_in=True))


def sinusoidal_decoder() -> TransformerConfig:
    """Pre-norm, sinusoids in halves, a relative bias besides, a window."""
    attention = Attention(heads=3, bias="v", causal=True, window=4)
    layer = Layer(self_attention=attention, feed_forward=FeedForward(dim=17))
    positions = Positions(kind="halves_inclusive", offset=1)
    bias = RelativeBias(buckets=6, max_distance=9, bidirectional=True)
    return TransformerConfig(
        dim=9, decoder=Stack(layers=(layer,) * 2, vocab=VOCAB, positions=positions, relative_bias=bias)
    )


def learned_encoder() -> TransformerConfig:
    """Post-norm, learned positions, token types, a norm after the embedding, a head with a dense layer."""
    layer = Layer(
        self_attention=Attention(heads=3, bias="qkvo"),
        feed_forward=FeedForward(dim=17, activation="gelu"),
        norm_place="post",
    )
    stack = Stack(
        layers=(layer,) * 2, vocab=VOCAB, positions=Positions(kind="learned", count=48), token_types=2, norm_in=True
    )
    return TransformerConfig(dim=12, encoder=stack, head=Head(dense=Dense(activation="gelu", norm=True), bias=True))


def rotary_encoder() -> TransformerConfig:
    """Pre-norm, rotary, a window on both sides in every other layer."""
    near, far = (Attention(heads=2, head_dim=6, window=w, rotary=Rotary(theta=300.0)) for w in (3, None))
    layers = tuple(Layer(self_attention=a, feed_forward=FeedForward(dim=17)) for a in (near, far))
    return TransformerConfig(dim=10, encoder=Stack(layers=layers, vocab=VOCAB, norm_out=True), head=None)


TRANSLATORS = {f.__name__: f for f in (post_norm_translator, relative_translator)}
DECODERS = {
    f.__name__: f for f in (learned_decoder, rotary_decoder, window_decoder, parallel_decoder, sinusoidal_decoder)
}
ENCODERS = {f.__name__: f for f in (learned_encoder, rotary_encoder)}
ALL = TRANSLATORS | DECODERS | ENCODERS


def build(config: TransformerConfig, dtype: torch.dtype = torch.float64) -> Transformer:
    """In eval mode; every parameter random, drawn from its name and shape, so that none is idle."""
    model = Transformer(config).to(dtype).eval()
    for name, value in model.named_parameters():
        generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {list(value.shape)}".encode()))
        drawn = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        gain = name.endswith("gain") and config.norm.kind != "rms_plus_one"
        scale = (
            0.4
            if value.dim() == 1
            else 1.0
            if "table" in name or "embedding" in name
            else 1.4 * value.shape[-1] ** -0.5
        )
        value.data = (drawn * scale + gain).to(dtype)
    return model


def text(batch: int, tokens: int, vocab: int = VOCAB, seed: int = 0) -> Tensor:
    """Ids without repetitions within a row (as long as there are enough), 3 and up."""
    generator = torch.Generator().manual_seed(seed)
    rows = [
        torch.cat([torch.randperm(vocab - 3, generator=generator) + 3 for _ in range(2)])[:tokens] for _ in range(batch)
    ]
    return torch.stack(rows)


def close(got: Tensor | None, want: Tensor | None, limit: float = 1e-10) -> None:
    """Equal up to `limit`, absolutely."""
    assert got is not None
    assert want is not None
    torch.testing.assert_close(got, want, atol=limit, rtol=0)
