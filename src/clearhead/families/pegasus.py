"""Pegasus (Zhang et al. 2020): BART's layout, pre-norm, with sinusoids, all sines first.

Published files leave them out; today's home library writes them as a table, which is used as it stands.
"""

from dataclasses import replace

from clearhead.config import Positions, TransformerConfig
from clearhead.families import bart, marian
from clearhead.families.family import BARE, LANGUAGE, Settings


def config_from(s: Settings) -> TransformerConfig:
    stored = any(name.endswith("embed_positions.weight") for name in s.tensors)
    places = Positions(kind="learned" if stored else "halves", count=s.get("max_position_embeddings", 1024))
    return bart.config_of(s, places, "gelu", pre=True, norm_in=False)


FAMILY = replace(
    marian.FAMILY,
    architectures={"PegasusForConditionalGeneration": LANGUAGE, "PegasusModel": BARE},
    config_from=config_from,
    fixed={
        "normalize_before": True,
        "add_final_layer_norm": True,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    },
)
