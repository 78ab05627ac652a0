"""Gemma 1, text (Gemma Team 2024): Llama's layout; norms that store gain - 1, scaled embeddings, tied head."""

from dataclasses import replace

from clearhead.config import Activation, Attention, FeedForward, Head, Layer, Norm, Stack, TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings
from clearhead.families.tasks import decoders

TANH = "gelu_pytorch_tanh"


def config_of(
    s: Settings, forms: list[Attention], bend: Activation, sandwich: bool, cap: float | None
) -> TransformerConfig:
    """The model with these attentions, one for each layer."""
    dim = s["hidden_size"]
    forward = FeedForward(dim=s["intermediate_size"], activation=bend, gated=True, bias=False)
    place = "sandwich" if sandwich else "pre"
    layers = tuple(Layer(self_attention=form, feed_forward=forward, norm_place=place) for form in forms)
    return TransformerConfig(
        dim=dim,
        norm=Norm(kind="rms_plus_one", eps=s.get("rms_norm_eps", 1e-6)),
        decoder=Stack(layers=layers, vocab=s["vocab_size"], embedding_scale=dim**0.5, norm_out=True),
        head=s.head(Head(tied=s.get("tie_word_embeddings", True), softcap=cap)),
        dropout=s.get("attention_dropout", 0.0),
        **s.ids(),
    )


def attention_of(s: Settings) -> Attention:
    return llama.attention(s, "qkvo" if s.get("attention_bias", False) else "", width=256)


def config_from(s: Settings) -> TransformerConfig:
    legacy = s.get("hidden_act", "gelu") == "gelu"  # the first releases say gelu and mean its approximation
    bend = "gelu_tanh" if legacy else s.activation("hidden_act", TANH)
    return config_of(s, [attention_of(s)] * s["num_hidden_layers"], bend, False, None)


FAMILY = replace(
    llama.FAMILY,
    architectures=decoders("Gemma"),
    config_from=config_from,
    fixed={"use_bidirectional_attention": False},
    ignored=frozenset({"hidden_activation"}),
)
