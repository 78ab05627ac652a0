"""mT5 (Xue et al. 2021): T5 1.1 for 101 languages; its head is never scaled."""

from dataclasses import replace

from clearhead.config import Head, TransformerConfig
from clearhead.families import t5
from clearhead.families.family import Settings


def config_from(s: Settings) -> TransformerConfig:
    config = t5.config_of(s, "gated-gelu")
    return replace(config, head=replace(config.head, scale=1.0)) if isinstance(config.head, Head) else config


FAMILY = replace(
    t5.FAMILY,
    architectures={f"M{name}": task for name, task in t5.FAMILY.architectures.items() if name != "T5WithLMHeadModel"},
    config_from=config_from,
)
