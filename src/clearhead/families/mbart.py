"""mBART and mBART-50 (Liu et al. 2020): BART's layout, pre-norm, with norms after the embedding and at the end.

A text ends with the token that the decoder starts from: the language, or eos. For labels of tokens to write, that is
here decoder_start_token_id, and where a file names none, labels and generation ask for a start: bos would be a wrong
one. A decoder that reads the text again begins with its last token, whatever the file names, as in the home library.
"""

from dataclasses import replace

from clearhead.config import Positions, TransformerConfig
from clearhead.families import bart
from clearhead.families.family import Settings


def config_from(s: Settings) -> TransformerConfig:
    table = Positions(kind="learned", count=s.get("max_position_embeddings", 1024), offset=2)
    config = bart.config_of(s, table, "gelu", pre=True, norm_in=True)
    if config.reads_twice:
        return replace(config, bos=None, start=None)
    return config if config.start is not None else replace(config, bos=None)


FAMILY = replace(
    bart.FAMILY,
    architectures={f"M{name}": task for name, task in bart.FAMILY.architectures.items()},
    config_from=config_from,
    fixed={
        "normalize_before": True,
        "add_final_layer_norm": True,
        "normalize_embedding": True,
        "static_position_embeddings": False,
        "extra_pos_embeddings": 2,
    },
)
