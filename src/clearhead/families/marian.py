"""Marian (Junczys-Dowmunt et al. 2018): BART's layout with sinusoids, all sines first; no norm after the embedding."""

from dataclasses import replace

from clearhead.config import Positions, TransformerConfig
from clearhead.families import bart
from clearhead.families.family import BARE, LANGUAGE, Settings


def config_from(s: Settings) -> TransformerConfig:
    waves = Positions(kind="halves", count=s.get("max_position_embeddings", 1024))
    return bart.config_of(s, waves, "gelu", pre=False, norm_in=False)


FAMILY = replace(
    bart.FAMILY,
    architectures={"MarianMTModel": LANGUAGE, "MarianModel": BARE},
    config_from=config_from,
    fixed={**bart.PLAIN, "normalize_embedding": False, "static_position_embeddings": True},
    ignored=bart.FAMILY.ignored | {"extra_pos_embeddings", "decoder_vocab_size"},
    constant=(r".*embed_positions\.weights?",),
)
