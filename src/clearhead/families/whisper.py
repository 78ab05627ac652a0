"""Whisper (Radford et al. 2022): BART's layout, pre-norm; its encoder hears frames of sound. Keys have no bias.

Features are log-mel spectrograms [B, bins, frames]; it was trained on 3,000 frames (30 seconds), padded with silence.
"""

from dataclasses import replace

from clearhead.config import Audio, Head, Positions, TransformerConfig
from clearhead.families import bart
from clearhead.families.family import BARE, LANGUAGE, Family, Settings, words
from clearhead.families.moves import Rename


def config_from(s: Settings) -> TransformerConfig:
    encoder = bart.stack_of(s, "encoder", 0, "gelu", pre=True, bias="qvo")
    decoder = bart.stack_of(s, "decoder", s["vocab_size"], "gelu", pre=True, bias="qvo")
    heard = Positions(kind="learned", count=s.get("max_source_positions", 1500))
    written = Positions(kind="learned", count=s.get("max_target_positions", 448))
    return TransformerConfig(
        dim=s["d_model"],
        encoder=replace(encoder, audio=Audio(bins=s.get("num_mel_bins", 80)), positions=heard),
        decoder=replace(decoder, positions=written),
        head=s.head(Head(tied=s.get("tie_word_embeddings", True))),
        dropout=s.get("dropout", 0.0),
        **s.ids(),
    )


def moves(config: TransformerConfig) -> list[Rename]:
    return [
        Rename("model.encoder.conv1", "encoder.embedding.first"),
        Rename("model.encoder.conv2", "encoder.embedding.second"),
        Rename("model.decoder.embed_tokens", "decoder.embedding"),
        *(move for name, stack in config.stacks.items() for move in bart.side(name, stack)),
        Rename("proj_out.weight", "head.weight"),
    ]


FAMILY = Family(
    architectures={"WhisperForConditionalGeneration": LANGUAGE, "WhisperModel": BARE},
    config_from=config_from,
    moves=moves,
    prefix="model.",
    # The home library has scale_embedding, but does not look at it.
    ignored=words(
        "attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop num_hidden_layers scale_embedding "
        "use_weighted_layer_sum classifier_proj_size apply_spec_augment mask_time_prob mask_time_length "
        "mask_time_min_masks mask_feature_prob mask_feature_length mask_feature_min_masks median_filter_width "
        "forced_decoder_ids"
    ),
    copies={"proj_out.weight": "model.decoder.embed_tokens.weight"},
)
