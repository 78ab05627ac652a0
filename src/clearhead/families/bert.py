"""BERT (Devlin et al. 2019): a post-norm encoder whose head begins with a dense layer."""

from clearhead.config import Attention, Dense, FeedForward, Head, Layer, Norm, Positions, Stack, TransformerConfig
from clearhead.families.family import LANGUAGE, Family, Settings, words
from clearhead.families.moves import Rename
from clearhead.families.tasks import answer_span, pooler, text_classifier, token_classifier


def config_of(s: Settings, offset: int, activation: str = "gelu") -> TransformerConfig:
    """The first `offset` rows of the position table are not used; `activation`: where the file does not say."""
    bend = s.activation("hidden_act", activation)
    layer = Layer(
        self_attention=Attention(heads=s["num_attention_heads"], bias="qkvo"),
        feed_forward=FeedForward(dim=s["intermediate_size"], activation=bend),
        norm_place="post",
    )
    rows = s["max_position_embeddings"]
    encoder = Stack(
        layers=(layer,) * s["num_hidden_layers"],
        vocab=s["vocab_size"],
        positions=Positions(kind="learned", count=rows - offset, offset=offset),
        token_types=s.get("type_vocab_size", 2),
        norm_in=True,
    )
    tied = s.get("tie_word_embeddings", True)
    return TransformerConfig(
        dim=s["hidden_size"],
        norm=Norm(eps=s.get("layer_norm_eps", 1e-12)),
        encoder=encoder,
        head=s.head(Head(tied=tied, bias=True, dense=Dense(activation=bend, norm=True))),
        dropout=s.get("hidden_dropout_prob", 0.1),
        **s.ids(),
    )


def config_from(s: Settings) -> TransformerConfig:
    return config_of(s, offset=0)


def body(name: str) -> list[Rename]:
    there, here = f"{name}.encoder.layer.{{}}.", "encoder.layers.{}."
    projections = {"query": "q", "key": "k", "value": "v"}
    return [
        Rename(f"{name}.embeddings.word_embeddings", "encoder.embedding"),
        Rename(f"{name}.embeddings.position_embeddings", "encoder.positions.table"),
        Rename(f"{name}.embeddings.token_type_embeddings", "encoder.token_types"),
        Rename(f"{name}.embeddings.LayerNorm", "encoder.norm_in"),
        *(Rename(f"{there}attention.self.{long}", f"{here}self_attention.{q}") for long, q in projections.items()),
        Rename(there + "attention.output.dense", here + "self_attention.o"),
        Rename(there + "attention.output.LayerNorm", here + "self_residual.total"),
        Rename(there + "intermediate.dense", here + "feed_forward.up"),
        Rename(there + "output.dense", here + "feed_forward.down"),
        Rename(there + "output.LayerNorm", here + "feed_forward_residual.total"),
    ]


def moves(config: TransformerConfig) -> list[Rename]:
    return [
        *body("bert"),
        Rename("cls.predictions.transform.dense", "head.dense.linear"),
        Rename("cls.predictions.transform.LayerNorm", "head.dense.norm"),
        Rename("cls.predictions.bias", "head.bias"),
        Rename("cls.predictions.decoder.weight", "head.weight"),
    ]


FAMILY = Family(
    architectures={
        "BertForMaskedLM": LANGUAGE,
        "BertForPreTraining": LANGUAGE,
        "BertModel": pooler("bert.pooler.dense"),
        "BertForSequenceClassification": text_classifier("classifier", "first", dense="bert.pooler.dense"),
        "BertForNextSentencePrediction": text_classifier("cls.seq_relationship", "first", dense="bert.pooler.dense"),
        "BertForTokenClassification": token_classifier(),
        "BertForQuestionAnswering": answer_span(),
    },
    config_from=config_from,
    moves=moves,
    prefix="bert.",
    fixed={"position_embedding_type": "absolute"},
    ignored=words(
        "attention_probs_dropout_prob pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
        "pooler_size_per_head pooler_type directionality"
    ),
    constant=(r".*embeddings\.position_ids",),
    extra=(r"((bert|roberta)\.)?pooler\..*", r"cls\.seq_relationship\..*"),
    older={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
