"""ModernBERT (Warner et al. 2024): a pre-norm encoder with rotary positions, gates, and windows in most layers."""

from dataclasses import replace

from clearhead.config import (
    AnswerSpan,
    Attention,
    Dense,
    FeedForward,
    Head,
    Layer,
    Norm,
    Stack,
    TextClassifier,
    TokenClassifier,
    TransformerConfig,
)
from clearhead.families import tasks
from clearhead.families.family import BARE, LANGUAGE, Family, Settings, Task, words
from clearhead.families.moves import Rename, Split
from clearhead.families.rope import FULL, LOCAL, layer_kinds, rotary


def attentions(s: Settings) -> list[Attention]:
    """One for each layer. A local one sees half of `local_attention` on either side, and turns by another base."""
    count, every = s["num_hidden_layers"], s.get("global_attn_every_n_layers", 3)
    kinds = layer_kinds(s, count, [LOCAL if i % every else FULL for i in range(count)])
    heads, bias = s["num_attention_heads"], "qkvo" if s.get("attention_bias", False) else ""
    far = Attention(heads=heads, bias=bias, rotary=rotary(s, s.get("global_rope_theta", 160000.0), kind=FULL))
    turned, window = rotary(s, s.get("local_rope_theta", 10000.0), kind=LOCAL), s.get("local_attention", 128) // 2 + 1
    return [replace(far, rotary=turned, window=window) if kind == LOCAL else far for kind in kinds]


def config_from(s: Settings) -> TransformerConfig:
    bend, bias = s.activation("hidden_activation", "gelu"), s.get("mlp_bias", False)
    forward = FeedForward(dim=s["intermediate_size"], activation=bend, gated=True, bias=bias)
    # The embedding ends with a norm, so the first attention needs none.
    layers = [Layer(self_attention=form, feed_forward=forward, bare=i == 0) for i, form in enumerate(attentions(s))]
    tied, last = s.get("tie_word_embeddings", True), s.get("decoder_bias", True)
    return TransformerConfig(
        dim=s["hidden_size"],
        norm=Norm(kind="layer" if s.get("norm_bias", False) else "layer_gain", eps=s.get("norm_eps", 1e-5)),
        encoder=Stack(layers=tuple(layers), vocab=s["vocab_size"], norm_in=True, norm_out=True),
        head=s.head(Head(tied=tied, bias=last, dense=dense(s))),
        dropout=s.get("mlp_dropout", 0.0),
        **s.ids(),
    )


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "model.layers.{}.", "encoder.layers.{}."
    return [
        Rename("model.embeddings.tok_embeddings", "encoder.embedding"),
        Rename("model.embeddings.norm", "encoder.norm_in"),
        Rename(there + "attn_norm", here + "self_residual.before"),
        Split(there + "attn.Wqkv", here + "self_attention.*"),
        Rename(there + "attn.Wo", here + "self_attention.o"),
        Rename(there + "mlp_norm", here + "feed_forward_residual.before"),
        Split(there + "mlp.Wi", here + "feed_forward.*", names=("gate", "up")),
        Rename(there + "mlp.Wo", here + "feed_forward.down"),
        Rename("model.final_norm", "encoder.norm_out"),
        Rename("head.dense", "head.dense.linear"),
        Rename("head.norm", "head.dense.norm"),
        Rename("decoder.bias", "head.bias"),
        Rename("decoder.weight", "head.weight"),
    ]


def dense(s: Settings) -> Dense:
    """What every head begins with."""
    bend, bias = s.activation("classifier_activation", "gelu"), s.get("classifier_bias", False)
    return Dense(activation=bend, bias=bias, norm=True)


def texts(s: Settings, language: Head) -> TextClassifier:
    pool = "mean" if s.get("classifier_pooling", "cls") == "mean" else "first"
    return TextClassifier(labels=tasks.labels(s), pool=pool, dense=dense(s), answer=tasks.answer(s))


HEAD = tasks.moves("classifier", "head.dense", "head.norm")
TOKENS = Task(lambda s, _: TokenClassifier(labels=tasks.labels(s), dense=dense(s)), HEAD)
FAMILY = Family(
    architectures={
        "ModernBertForMaskedLM": LANGUAGE,
        "ModernBertModel": BARE,
        "ModernBertForSequenceClassification": Task(texts, HEAD),
        "ModernBertForTokenClassification": TOKENS,
        "ModernBertForQuestionAnswering": Task(lambda s, _: AnswerSpan(dense=dense(s)), HEAD),
    },
    config_from=config_from,
    moves=moves,
    prefix="model.",
    ignored=words(
        "attention_dropout embedding_dropout classifier_pooling cls_token_id deterministic_flash_attn "
        "initializer_cutoff_factor layer_norm_eps reference_compile repad_logits_with_grad sparse_prediction "
        "sparse_pred_ignore_index position_embedding_type"
    ),
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
)
