"""MPNet (Song et al. 2020): RoBERTa without token types, with biases by bucket of distance as T5 has them."""

from dataclasses import replace

from clearhead.config import RelativeBias, TransformerConfig
from clearhead.families import bert, roberta
from clearhead.families.family import Settings
from clearhead.families.moves import Rename


def config_from(s: Settings) -> TransformerConfig:
    config = roberta.with_head(bert.config_of(s, offset=2))  # whatever pad_token_id says
    assert config.encoder is not None
    return replace(config, encoder=replace(config.encoder, token_types=0, relative_bias=RelativeBias()))


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "mpnet.encoder.layer.{}.attention.", "encoder.layers.{}."
    common = [*bert.body("mpnet"), *roberta.head()]
    return [
        *(move for move in common if ".attention." not in move.theirs),
        Rename("mpnet.encoder.relative_attention_bias", "encoder.relative_bias.table"),
        *(Rename(f"{there}attn.{part}", f"{here}self_attention.{part}") for part in "qkvo"),
        Rename(there + "LayerNorm", here + "self_residual.total"),
    ]


FAMILY = replace(
    roberta.FAMILY,
    architectures=roberta.classes("MPNet", "mpnet"),
    config_from=config_from,
    moves=moves,
    prefix="mpnet.",
    fixed={"relative_attention_num_buckets": 32},  # its home library's own code knows no other
    extra=(r"(mpnet\.)?pooler\..*",),
    copies={
        "lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)
