"""RoBERTa (Liu et al. 2019): BERT whose positions begin behind the padding's row."""

from dataclasses import replace

from clearhead.config import Dense, Head, TransformerConfig
from clearhead.families import bert
from clearhead.families.family import LANGUAGE, Settings, Task
from clearhead.families.moves import Rename
from clearhead.families.tasks import answer_span, pooler, text_classifier, token_classifier


def config_from(s: Settings) -> TransformerConfig:
    return with_head(bert.config_of(s, offset=s.get("pad_token_id", 1) + 1))


def with_head(config: TransformerConfig) -> TransformerConfig:
    """A language head bends by gelu, whatever hidden_act says."""
    if isinstance(config.head, Head):
        return replace(config, head=replace(config.head, dense=Dense(activation="gelu", norm=True)))
    return config


def moves(config: TransformerConfig) -> list[Rename]:
    return [*bert.body("roberta"), *head()]


def head() -> list[Rename]:
    return [
        Rename("lm_head.dense", "head.dense.linear"),
        Rename("lm_head.layer_norm", "head.dense.norm"),
        Rename("lm_head.bias", "head.bias"),
        Rename("lm_head.decoder.weight", "head.weight"),
    ]


def classes(name: str, prefix: str = "roberta") -> dict[str, Task]:
    return {
        f"{name}ForMaskedLM": LANGUAGE,
        f"{name}Model": pooler(f"{prefix}.pooler.dense"),
        f"{name}ForSequenceClassification": text_classifier("classifier.out_proj", "first", dense="classifier.dense"),
        f"{name}ForTokenClassification": token_classifier(),
        f"{name}ForQuestionAnswering": answer_span(),
    }


FAMILY = replace(
    bert.FAMILY,
    architectures=classes("Roberta"),
    config_from=config_from,
    moves=moves,
    prefix="roberta.",
    copies={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)
