"""Texts to labels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.config import TextClassifier
from clearhead.model.transformer import Transformer


@torch.no_grad()
def classify(model: Transformer, texts: str | Sequence[str], *, batch_size: int = 32) -> list[dict[str, float]]:
    """The probability of each label, the likeliest first; one such dictionary for each text (one if a plain string).

    Of a head for any number of labels (`answer="any"`) each is by itself; one for numbers gives these. Raises
    ValueError for a model without tokenizer or without a head for labels of texts, and for a text that it cannot read.
    """
    head, rows = model.config.head, [texts] if isinstance(texts, str) else list(texts)
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer to read texts with; load one, or call model(input_ids).logits")
    if not isinstance(head, TextClassifier):
        named = "no head" if head is None else f"the head {type(head).__name__}"
        raise ValueError(f"the model has {named}; labels need a TextClassifier, which clearhead train classify makes")
    found: list[dict[str, float]] = []
    for start in range(0, len(rows), batch_size):
        batch = model.tokenizer(rows[start : start + batch_size])
        device = model.last.table.device
        logits = model(batch["input_ids"].to(device), batch["attention_mask"].to(device)).logits
        assert logits is not None
        found += [_named(row, head) for row in logits.float()]
    return found


def _named(logits: Tensor, head: TextClassifier) -> dict[str, float]:
    said = {"one": lambda: logits.softmax(-1), "any": lambda: logits.sigmoid(), "number": lambda: logits}[head.answer]()
    both = zip(head.labels, said.tolist(), strict=True)
    return dict(both if head.answer == "number" else sorted(both, key=lambda one: -one[1]))
