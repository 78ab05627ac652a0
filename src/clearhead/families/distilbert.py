"""DistilBERT (Sanh et al. 2019): BERT with half the layers and without token types."""

from clearhead.config import Attention, Dense, FeedForward, Head, Layer, Norm, Positions, Stack, TransformerConfig
from clearhead.families.family import BARE, LANGUAGE, Family, Settings, words
from clearhead.families.moves import Rename
from clearhead.families.tasks import answer_span, text_classifier, token_classifier


def config_from(s: Settings) -> TransformerConfig:
    bend = s.activation("activation", "gelu")
    layer = Layer(
        self_attention=Attention(heads=s["n_heads"], bias="qkvo"),
        feed_forward=FeedForward(dim=s["hidden_dim"], activation=bend),
        norm_place="post",
    )
    encoder = Stack(
        layers=(layer,) * s["n_layers"],
        vocab=s["vocab_size"],
        positions=Positions(kind="learned", count=s.get("max_position_embeddings", 512)),
        norm_in=True,
    )
    return TransformerConfig(
        dim=s["dim"],
        norm=Norm(eps=1e-12),
        encoder=encoder,
        head=s.head(Head(tied=s.get("tie_word_embeddings", True), bias=True, dense=Dense(activation=bend, norm=True))),
        dropout=s.get("dropout", 0.1),
        **s.ids(),
    )


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "distilbert.transformer.layer.{}.", "encoder.layers.{}."
    projections = {"q_lin": "q", "k_lin": "k", "v_lin": "v", "out_lin": "o"}
    return [
        Rename("distilbert.embeddings.word_embeddings", "encoder.embedding"),
        Rename("distilbert.embeddings.position_embeddings", "encoder.positions.table"),
        Rename("distilbert.embeddings.LayerNorm", "encoder.norm_in"),
        *(Rename(f"{there}attention.{long}", f"{here}self_attention.{q}") for long, q in projections.items()),
        Rename(there + "sa_layer_norm", here + "self_residual.total"),
        Rename(there + "ffn.lin1", here + "feed_forward.up"),
        Rename(there + "ffn.lin2", here + "feed_forward.down"),
        Rename(there + "output_layer_norm", here + "feed_forward_residual.total"),
        Rename("vocab_transform", "head.dense.linear"),
        Rename("vocab_layer_norm", "head.dense.norm"),
        Rename("vocab_projector.bias", "head.bias"),
        Rename("vocab_projector.weight", "head.weight"),
    ]


FAMILY = Family(
    architectures={
        "DistilBertForMaskedLM": LANGUAGE,
        "DistilBertModel": BARE,
        "DistilBertForSequenceClassification": text_classifier(
            "classifier", "first", dense="pre_classifier", activation="relu"
        ),
        "DistilBertForTokenClassification": token_classifier(),
        "DistilBertForQuestionAnswering": answer_span(),
    },
    config_from=config_from,
    moves=moves,
    prefix="distilbert.",
    # The table of positions is in the file, sinusoids or not.
    ignored=words("attention_dropout qa_dropout seq_classif_dropout sinusoidal_pos_embds tie_weights_"),
    constant=(r".*embeddings\.position_ids",),
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)
