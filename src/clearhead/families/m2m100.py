"""M2M100 and NLLB (Fan et al. 2020): BART's layout, pre-norm; the sinusoids of tensor2tensor, from row pad + 1 on."""

from dataclasses import replace

from clearhead.config import Positions, TransformerConfig
from clearhead.families import bart, marian
from clearhead.families.family import BARE, LANGUAGE, Settings


def config_from(s: Settings) -> TransformerConfig:
    first = s.get("pad_token_id", 1) + 1
    waves = Positions(kind="halves_inclusive", count=s.get("max_position_embeddings", 1024), offset=first)
    return bart.config_of(s, waves, "relu", pre=True, norm_in=False)


FAMILY = replace(
    marian.FAMILY,
    architectures={"M2M100ForConditionalGeneration": LANGUAGE, "M2M100Model": BARE},
    config_from=config_from,
    fixed={"normalize_before": True},
    ignored=marian.FAMILY.ignored | {"static_position_embeddings"},
)
