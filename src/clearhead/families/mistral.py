"""Mistral (Jiang et al. 2023): Llama's layout, with a window in every layer."""

from dataclasses import replace

from clearhead.config import TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings
from clearhead.families.tasks import decoders


def config_from(s: Settings) -> TransformerConfig:
    layers = [s.optional("sliding_window", 4096)] * s["num_hidden_layers"]
    return llama.config_of(s, llama.attention(s), False, layers)


FAMILY = replace(llama.FAMILY, architectures=decoders("Mistral"), config_from=config_from)
