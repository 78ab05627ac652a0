"""RoBERTa (Liu et al. 2019): BERT whose positions begin behind the padding's row."""

from dataclasses import replace

from clearhead.config import TransformerConfig
from clearhead.families import bert
from clearhead.families.family import Settings
from clearhead.families.moves import Rename


def config_from(s: Settings) -> TransformerConfig:
    return bert.config_of(s, offset=s.get("pad_token_id", 1) + 1)


def moves(config: TransformerConfig) -> list[Rename]:
    return [
        *bert.body("roberta"),
        Rename("lm_head.dense", "head.transform"),
        Rename("lm_head.layer_norm", "head.norm"),
        Rename("lm_head.bias", "head.bias"),
        Rename("lm_head.decoder.weight", "head.weight"),
    ]


FAMILY = replace(
    bert.FAMILY,
    architectures={"RobertaForMaskedLM": True, "RobertaModel": False},
    config_from=config_from,
    moves=moves,
    prefix="roberta.",
    copies={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)
