"""OLMo 2 (OLMo Team 2025): Llama's layout with norms on what the branches add, and on q and k over all heads."""

from dataclasses import replace

from clearhead.config import Norm, TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings
from clearhead.families.moves import Rename
from clearhead.families.tasks import decoders


def config_from(s: Settings) -> TransformerConfig:
    form = replace(llama.attention(s, "qkvo" if s.get("attention_bias", False) else ""), qk_norm="width")
    config = llama.config_of(s, form, False, [None] * s["num_hidden_layers"])
    assert config.decoder is not None
    layers = tuple(replace(layer, norm_place="output") for layer in config.decoder.layers)
    norm = Norm(kind="rms", eps=s.get("rms_norm_eps", 1e-5))
    return replace(config, decoder=replace(config.decoder, layers=layers), norm=norm)


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "model.layers.{}.", "decoder.layers.{}."
    return [
        *llama.moves(config),
        Rename(there + "post_attention_layernorm", here + "self_residual.after"),
        Rename(there + "post_feedforward_layernorm", here + "feed_forward_residual.after"),
    ]


FAMILY = replace(
    llama.FAMILY,
    architectures=decoders("Olmo2", tokens=False),
    config_from=config_from,
    moves=moves,
)
