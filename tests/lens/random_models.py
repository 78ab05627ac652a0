"""Small models of every shape, with every parameter drawn, also gains and biases: nothing is trivially right."""

from dataclasses import replace

import torch

from clearhead.config import (
    Attention,
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

V, D = 13, 16
IDS = torch.tensor([[3, 4, 5, 6, 7, 8]])
PAIR = {"input_ids": torch.tensor([[3, 4, 5, 6]]), "decoder_input_ids": torch.tensor([[1, 9, 10]])}
OPEN = Attention(heads=4, bias="qkvo")
CAUSAL = replace(OPEN, causal=True)
TURNED = Attention(heads=4, kv_heads=2, causal=True, rotary=Rotary())
PLAIN = FeedForward(dim=20)
GATED = FeedForward(dim=20, activation="silu", gated=True, bias=False)


def decoder(layer: Layer, *, head: Head | None = None, norm: str = "layer", **stack) -> TransformerConfig:
    stack = {"layers": (layer,) * 3, "vocab": V, "norm_out": True, **stack}
    return TransformerConfig(dim=D, norm=Norm(kind=norm), decoder=Stack(**stack), head=head or Head(), pad=0, bos=1)


def both(place: str = "pre", norm: str = "layer", head: Head | None = None, **stack) -> TransformerConfig:
    reader = Layer(self_attention=OPEN, feed_forward=PLAIN, norm_place=place)
    writer = replace(reader, self_attention=CAUSAL, cross_attention=OPEN)
    stack = {"vocab": V, "norm_out": place != "post", **stack}
    return TransformerConfig(
        dim=D,
        norm=Norm(kind=norm),
        encoder=Stack(layers=(reader,) * 2, **stack),
        decoder=Stack(layers=(writer,) * 2, **stack),
        head=head or Head(),
        pad=0,
        bos=1,
        eos=2,
    )


KINDS = {
    "gpt2": decoder(Layer(self_attention=CAUSAL, feed_forward=PLAIN), positions=Positions(kind="learned", count=99)),
    "llama": decoder(Layer(self_attention=TURNED, feed_forward=GATED), norm="rms", head=Head(tied=False)),
    "gemma": decoder(
        Layer(self_attention=replace(TURNED, softcap=5.0), feed_forward=GATED, norm_place="sandwich"),
        norm="rms_plus_one",
        head=Head(softcap=3.0),
        embedding_scale=4.0,
    ),
    "olmo": decoder(Layer(self_attention=TURNED, feed_forward=GATED, norm_place="output"), norm="rms"),
    "neox": decoder(
        Layer(self_attention=replace(CAUSAL, rotary=Rotary(fraction=0.5)), feed_forward=PLAIN, parallel=True),
        head=Head(bias=True, tied=False),
    ),
    "t5": both(norm="rms", head=Head(scale=0.25), relative_bias=RelativeBias(buckets=8, max_distance=20)),
    "output norm with shift": both("output", head=Head(bias=True)),
    "shared layers": decoder(
        Layer(self_attention=CAUSAL, feed_forward=PLAIN), shared=(0, 0, 1), embedding_dim=8, head=Head(tied=False)
    ),
    "encoder": TransformerConfig(
        dim=D,
        norm=Norm(kind="layer_gain"),
        encoder=Stack(layers=(Layer(self_attention=OPEN, feed_forward=PLAIN),) * 2, vocab=V, norm_out=True),
        head=Head(bias=True),
        pad=0,
    ),
}


def made(config: TransformerConfig, dtype: torch.dtype = torch.float32) -> Transformer:
    model = Transformer(config).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def inputs(config: TransformerConfig) -> dict[str, torch.Tensor]:
    return PAIR if config.encoder and config.decoder else {"input_ids": IDS}
