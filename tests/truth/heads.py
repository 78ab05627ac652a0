"""Tiny random models of transformers with the other heads: on the same bodies as in homes.py."""

from collections.abc import Callable
from typing import Any

import transformers as hf

from truth import homes

LABELS = {0: "no", 1: "yes", 2: "perhaps", 3: "who knows"}
TEXTS, TOKENS, SPANS = "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"


def on(make: Callable[[], Any], name: str, labels: dict[int, str] | None = None, **changes: Any) -> Callable[[], Any]:
    """The class `name` with the config of another tiny model."""

    def made() -> Any:
        config = make().config
        named = {"id2label": labels or LABELS, "label2id": {value: key for key, value in (labels or LABELS).items()}}
        named = {} if name.endswith(SPANS) else named
        return getattr(hf, name)(type(config)(**{**config.to_dict(), **named, **changes}))

    return made


def deep(name: str, make: Callable[[], Any], *kinds: str) -> dict[str, Callable[[], Any]]:
    return {name + kind: on(make, name + kind) for kind in kinds}


def modernbert() -> Any:
    return hf.ModernBertModel(homes.modernbert_config())


HEADS: dict[str, Callable[[], Any]] = {
    **deep("Bert", homes.bert, TEXTS, TOKENS, SPANS),
    "BertForNextSentencePrediction": on(homes.bert, "BertForNextSentencePrediction", {0: "next", 1: "random"}),
    "BertModel": on(homes.bert, "BertModel"),
    **deep("Roberta", homes.roberta, TEXTS, TOKENS, SPANS),
    "RobertaModel": on(homes.roberta, "RobertaModel"),
    **deep("XLMRoberta", homes.xlm_roberta, TEXTS, TOKENS, SPANS),
    "XLMRobertaModel": on(homes.xlm_roberta, "XLMRobertaModel"),
    **deep("MPNet", homes.mpnet, TEXTS, TOKENS, SPANS),
    "MPNetModel": on(homes.mpnet, "MPNetModel"),
    **deep("DistilBert", homes.HOMES["distilbert"], TEXTS, TOKENS, SPANS),
    **deep("Albert", homes.HOMES["albert"], TEXTS, TOKENS, SPANS),
    "AlbertModel": on(homes.HOMES["albert"], "AlbertModel"),
    **deep("ModernBert", modernbert, TEXTS, TOKENS, SPANS),
    "ModernBertForSequenceClassification, mean": on(
        homes.modernbert_biases, "ModernBertForSequenceClassification", classifier_pooling="mean"
    ),
    **deep("GPT2", homes.gpt2, TEXTS, TOKENS, SPANS),
    **deep("GPTNeoX", homes.neox, TEXTS, TOKENS, SPANS),
    **deep("Llama", homes.llama, TEXTS, TOKENS),
    **deep("Mistral", homes.mistral, TEXTS, TOKENS),
    **deep("Qwen2", homes.qwen2, TEXTS, TOKENS),
    **deep("Qwen3", homes.qwen3, TEXTS, TOKENS),
    **deep("Gemma", homes.gemma, TEXTS, TOKENS),
    **deep("Gemma2", homes.gemma2, TEXTS, TOKENS),
    **deep("Gemma3Text", homes.gemma3, TEXTS),
    **deep("Phi3", homes.phi3, TEXTS, TOKENS),
    **deep("Olmo2", homes.olmo2, TEXTS),
    **deep("Starcoder2", homes.starcoder2, TEXTS, TOKENS),
    **deep("T5", homes.t5, TEXTS, TOKENS, SPANS),
    **deep("MT5", homes.mt5, TEXTS, TOKENS, SPANS),
    **deep("Bart", homes.bart, TEXTS, SPANS),
    **deep("MBart", homes.mbart, TEXTS, SPANS),
}
