"""Qwen2 (Qwen Team 2024): Llama's layout, with biases on q, k and v, and windows in the upper layers if in use."""

from dataclasses import replace

from clearhead.config import TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings
from clearhead.families.rope import FULL, LOCAL, windows
from clearhead.families.tasks import decoders


def local_from(s: Settings) -> list[int | None]:
    """Windows in the layers from `max_window_layers` on, where they are in use at all."""
    count, first = s["num_hidden_layers"], s.get("max_window_layers", 28)
    if not s.get("use_sliding_window", False) or s.optional("sliding_window", 4096) is None:
        first = count
    return windows(s, count, [LOCAL if i >= first else FULL for i in range(count)])


def config_from(s: Settings) -> TransformerConfig:
    return llama.config_of(s, llama.attention(s, "qkv"), False, local_from(s))


FAMILY = replace(
    llama.FAMILY,
    architectures=decoders("Qwen2"),
    config_from=config_from,
    fixed={"use_mrope": False},
)
