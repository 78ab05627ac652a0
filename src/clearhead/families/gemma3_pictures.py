"""Gemma 3 that sees pictures too (Gemma Team 2025): its text part, which is Gemma 3 under longer names.

What it has for pictures stays unread, and is not written again.
"""

from dataclasses import replace

from clearhead.config import TransformerConfig
from clearhead.families import gemma3
from clearhead.families.family import LANGUAGE, Settings, words
from clearhead.families.moves import Rename


def config_from(s: Settings) -> TransformerConfig:
    """The published files leave out what is as in the home library."""
    sizes = {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4}
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}
    return gemma3.config_from(s.part("text_config", **sizes, **ids))


def moves(config: TransformerConfig) -> list[Rename]:
    return [replace(move, theirs=f"language_model.{move.theirs}") for move in gemma3.FAMILY.moves(config)]


FAMILY = replace(
    gemma3.FAMILY,
    architectures={"Gemma3ForConditionalGeneration": LANGUAGE},
    config_from=config_from,
    moves=moves,
    prefix="language_model.",
    fixed={**gemma3.FAMILY.fixed, "tie_word_embeddings": True},
    ignored=gemma3.FAMILY.ignored
    | words("boi_token_index eoi_token_index image_token_index mm_tokens_per_image vision_config"),
    extra=(r"(vision_tower|multi_modal_projector)\..*",),
    copies={"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"},
)
