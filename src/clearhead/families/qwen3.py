"""Qwen3 (Qwen Team 2025): Qwen2 with norms on q and k in place of the biases."""

from dataclasses import replace

from clearhead.config import TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings
from clearhead.families.qwen2 import local_from
from clearhead.families.tasks import decoders


def config_from(s: Settings) -> TransformerConfig:
    form = llama.attention(s, "qkvo" if s.get("attention_bias", False) else "", width=128)
    return llama.config_of(s, replace(form, qk_norm="head"), False, local_from(s))


FAMILY = replace(llama.FAMILY, architectures=decoders("Qwen3"), config_from=config_from)
