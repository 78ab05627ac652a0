"""ALBERT (Lan et al. 2020): BERT with narrow tables and one set of weights for many layers."""

from dataclasses import replace

from clearhead.config import Head, TransformerConfig
from clearhead.families import bert
from clearhead.families.family import LANGUAGE, Settings, words
from clearhead.families.moves import Rename
from clearhead.families.tasks import answer_span, pooler, text_classifier, token_classifier


def config_from(s: Settings) -> TransformerConfig:
    config = bert.config_of(s, offset=0, activation="gelu_new")
    assert config.encoder is not None
    count, groups = s["num_hidden_layers"], s.get("num_hidden_groups", 1)
    if groups > count:
        raise ValueError(f"config.json sets num_hidden_groups to {groups}, but num_hidden_layers to {count}; use fewer")
    shared = tuple(int(i / (count / groups)) for i in range(count))  # rounded as at home, where it does not divide
    width = s.get("embedding_size", 128)
    encoder, head = replace(config.encoder, embedding_dim=width, shared=shared), config.head
    if isinstance(head, Head) and head.dense is not None:
        head = replace(head, dense=replace(head.dense, width=width))
    return replace(config, encoder=encoder, head=head)


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "albert.encoder.albert_layer_groups.{}.albert_layers.0.", "encoder.layers.{}."
    projections = {"query": "q", "key": "k", "value": "v", "dense": "o"}
    return [
        *(move for move in bert.body("albert") if ".layer." not in move.theirs),
        Rename("albert.encoder.embedding_hidden_mapping_in", "encoder.widen"),
        *(Rename(f"{there}attention.{long}", f"{here}self_attention.{q}") for long, q in projections.items()),
        Rename(there + "attention.LayerNorm", here + "self_residual.total"),
        Rename(there + "ffn", here + "feed_forward.up"),
        Rename(there + "ffn_output", here + "feed_forward.down"),
        Rename(there + "full_layer_layer_norm", here + "feed_forward_residual.total"),
        Rename("predictions.dense", "head.dense.linear"),
        Rename("predictions.LayerNorm", "head.dense.norm"),
        Rename("predictions.bias", "head.bias"),
        Rename("predictions.decoder.weight", "head.weight"),
    ]


FAMILY = replace(
    bert.FAMILY,
    architectures={
        "AlbertForMaskedLM": LANGUAGE,
        "AlbertForPreTraining": LANGUAGE,
        "AlbertModel": pooler("albert.pooler"),
        "AlbertForSequenceClassification": text_classifier("classifier", "first", dense="albert.pooler"),
        "AlbertForTokenClassification": token_classifier(),
        "AlbertForQuestionAnswering": answer_span(),
    },
    config_from=config_from,
    moves=moves,
    prefix="albert.",
    fixed={**bert.FAMILY.fixed, "inner_group_num": 1},
    ignored=words(
        "attention_probs_dropout_prob classifier_dropout_prob down_scale_factor gap_size layers_to_keep "
        "net_structure_type num_memory_blocks"
    ),
    extra=(r"(albert\.)?pooler\..*", r"sop_classifier\..*"),
    copies={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
)
