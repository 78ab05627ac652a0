"""Ready configs by name. Sizes of published models are facts; the small ones are for laptops."""

import difflib
from dataclasses import replace

from clearhead.config import (
    Attention,
    Dense,
    FeedForward,
    Head,
    Layer,
    Norm,
    Positions,
    Rotary,
    Stack,
    TransformerConfig,
)


def original(vocab: int, dim: int, heads: int, hidden: int, dropout: float) -> TransformerConfig:
    """The model of Vaswani et al. 2017: post-norm, six layers each, one table for source, target and output.

    Attention without bias vectors, as in the paper's equations. With 37,000 tokens (the paper's English-German
    vocabulary) base has 63,045,632 parameters and big 214,171,648; the paper's table 3 says 65 and 213 million.
    """
    look, forward = Attention(heads=heads), FeedForward(dim=hidden)
    encoder = Layer(self_attention=look, feed_forward=forward, norm_place="post")
    decoder = replace(encoder, self_attention=Attention(heads=heads, causal=True), cross_attention=look)
    sinusoids = Positions(kind="interleaved")
    return TransformerConfig(
        dim=dim,
        encoder=Stack(layers=(encoder,) * 6, vocab=vocab, embedding_scale=dim**0.5, positions=sinusoids),
        decoder=Stack(layers=(decoder,) * 6, vocab=vocab, embedding_scale=dim**0.5, positions=sinusoids),
        head=Head(tied=True),
        shared_embeddings=True,
        pad=0,
        bos=1,
        eos=2,
        dropout=dropout,
    )


def gpt2(layers: int, dim: int, heads: int) -> TransformerConfig:
    """GPT-2 (Radford et al. 2019): pre-norm, learned positions, biases everywhere, tied head."""
    layer = Layer(
        self_attention=Attention(heads=heads, causal=True, bias="qkvo"),
        feed_forward=FeedForward(dim=4 * dim, activation="gelu_tanh"),
    )
    table = Positions(kind="learned", count=1024)
    return TransformerConfig(
        dim=dim,
        decoder=Stack(layers=(layer,) * layers, vocab=50257, positions=table, norm_out=True),
        head=Head(tied=True),
        bos=50256,
        eos=50256,
        dropout=0.1,
        init_std=0.02,
    )


def small_translator(vocab: int, target_vocab: int | None = None, dim: int = 256) -> TransformerConfig:
    """A translator for a laptop: three layers each, pre-norm, sinusoidal positions, own tables for both languages."""
    look, forward = Attention(heads=dim // 32), FeedForward(dim=4 * dim)
    encoder = Layer(self_attention=look, feed_forward=forward)
    decoder = replace(encoder, self_attention=replace(look, causal=True), cross_attention=look)
    sinusoids = Positions(kind="interleaved")
    return TransformerConfig(
        dim=dim,
        encoder=Stack(layers=(encoder,) * 3, vocab=vocab, positions=sinusoids, norm_out=True),
        decoder=Stack(layers=(decoder,) * 3, vocab=target_vocab or vocab, positions=sinusoids, norm_out=True),
        head=Head(tied=False),
        pad=0,
        bos=1,
        eos=2,
        dropout=0.1,
    )


def small_lm(vocab: int, dim: int = 384) -> TransformerConfig:
    """A language model for a laptop: six layers, rms norm, rotary positions, gated feed-forward, no bias vectors."""
    layer = Layer(
        self_attention=Attention(heads=dim // 64, causal=True, rotary=Rotary()),
        feed_forward=FeedForward(dim=dim * 8 // 3 // 64 * 64, activation="silu", gated=True, bias=False),
    )
    return TransformerConfig(
        dim=dim,
        norm=Norm(kind="rms"),
        decoder=Stack(layers=(layer,) * 6, vocab=vocab, norm_out=True),
        head=Head(tied=True),
        init_std=0.02,
    )


def small_encoder(vocab: int, dim: int = 256) -> TransformerConfig:
    """An encoder for a laptop: four layers, pre-norm, learned positions for 512 tokens, tied head."""
    layer = Layer(
        self_attention=Attention(heads=dim // 64, bias="qkvo"),
        feed_forward=FeedForward(dim=4 * dim, activation="gelu"),
    )
    table = Positions(kind="learned", count=512)
    return TransformerConfig(
        dim=dim,
        encoder=Stack(layers=(layer,) * 4, vocab=vocab, positions=table, norm_out=True),
        head=Head(bias=True, dense=Dense(activation="gelu", norm=True)),
        pad=0,
        dropout=0.1,
        init_std=0.02,
    )


PRESETS = {
    "original-base": lambda: original(37000, 512, 8, 2048, dropout=0.1),
    "original-big": lambda: original(37000, 1024, 16, 4096, dropout=0.3),
    "gpt2": lambda: gpt2(12, 768, 12),
    "gpt2-medium": lambda: gpt2(24, 1024, 16),
    "gpt2-large": lambda: gpt2(36, 1280, 20),
    "gpt2-xl": lambda: gpt2(48, 1600, 25),
    "small-translator": lambda: small_translator(8000),
    "small-lm": lambda: small_lm(8000),
    "small-encoder": lambda: small_encoder(8000),
}


def preset(name: str) -> TransformerConfig:
    """The config called `name`. Raises ValueError with the nearest name, or all of them."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(PRESETS)}"
        raise ValueError(f"preset {name!r} is not known; {hint}")
    return PRESETS[name]()
