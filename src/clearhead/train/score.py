"""How well a model predicts data that it was not trained on."""

import math
from typing import NamedTuple

import torch

from clearhead.model.transformer import Transformer
from clearhead.train.data import Data
from clearhead.train.loss import IGNORED, smoothed_loss, teach


class Score(NamedTuple):
    """A loss in nats per target token, and the number of these."""

    loss: float
    tokens: int

    def bits_per_byte(self, text_bytes: int) -> float:
        """The same for every tokenizer: what the tokens cost, over the bytes of UTF-8 that they spell."""
        return self.loss * self.tokens / math.log(2) / text_bytes


def evaluate(model: Transformer, data: Data) -> Score:
    """The loss without smoothing of every target token, each once. The model must be in eval mode."""
    device, total, tokens = model.last.table.device, 0.0, 0
    with torch.no_grad():
        for batch in data.whole():
            fed, targets = teach(model.config, {name: tensor.to(device) for name, tensor in batch.items()})
            logits = model(**fed).logits
            assert logits is not None, "teach has looked at the head"
            total += float(smoothed_loss(logits, targets))
            tokens += int((targets != IGNORED).sum())
    return Score(total / tokens, tokens)
