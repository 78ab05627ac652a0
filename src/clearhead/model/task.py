"""Heads that say something about a text or its tokens: labels, the place of an answer, one vector."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.pool import pool
from clearhead.model.head import Dense
from clearhead.model.inputs import Sound, Text
from clearhead.tap import SILENT, Tap


class TokenHead(nn.Module):
    """hidden [B, T, D] -> logits [B, T, L]: of the labels of each token, or of an answer's start and end."""

    def __init__(
        self, form: config.TextClassifier | config.TokenClassifier | config.AnswerSpan, model: config.TransformerConfig
    ):
        super().__init__()
        self.dense = nn.Identity() if form.dense is None else Dense(form.dense, model)
        self.dropout = nn.Dropout(model.dropout)
        width = model.dim if form.dense is None else form.dense.width or model.dim
        self.out = nn.Linear(width, 2 if isinstance(form, config.AnswerSpan) else len(form.labels), bias=form.bias)

    def forward(self, hidden: Tensor, given: Text | Sound, tap: Tap = SILENT) -> Tensor:
        return tap("logits", self.out(self.dropout(self.dense(hidden))))


class TextHead(TokenHead):
    """hidden [B, T, D] -> logits [B, L] of the labels of each text. Site `pooled` [B, D] is what stands for it."""

    def __init__(self, form: config.TextClassifier, model: config.TransformerConfig):
        super().__init__(form, model)
        self.pool: config.Pool = form.pool
        self.model = model

    def forward(self, hidden: Tensor, given: Text | Sound, tap: Tap = SILENT) -> Tensor:
        return super().forward(tap("pooled", pooled(hidden, given, self.pool, self.model)), given, tap)


class EmbeddingHead(nn.Module):
    """hidden [B, T, D] -> one vector for each text [B, width]."""

    def __init__(self, form: config.TextEmbedding, model: config.TransformerConfig):
        super().__init__()
        self.form, self.model = form, model
        self.dense = nn.Identity() if form.dense is None else Dense(form.dense, model)

    def forward(self, hidden: Tensor, given: Text | Sound, tap: Tap = SILENT) -> Tensor:
        x = self.dense(tap("pooled", pooled(hidden, given, self.form.pool, self.model)))
        return tap("embedding", F.normalize(x, dim=-1) if self.form.normalise else x)


def pooled(hidden: Tensor, given: Text | Sound, kind: config.Pool, model: config.TransformerConfig) -> Tensor:
    """The state [B, D] that stands for each text; padding counts nothing. See `config.Pool` for the kinds."""
    if isinstance(given, Sound):
        assert kind in ("first", "last", "mean", "max"), "the config has looked"
        return pool(hidden, kind)
    marks = None if given.mask is None else given.mask != 0
    if kind == "eos" or kind == "not_pad":
        wanted = candidates(given.ids, kind, model)
        return pool(hidden, "last", wanted if marks is None else wanted & marks)
    return pool(hidden, kind, marks)


def check_candidates(text: Text, kind: config.Pool | None, model: config.TransformerConfig) -> None:
    """ValueError if a text has no token of the kind that is looked for. Under a compiler nothing is looked at."""
    if kind not in ("eos", "not_pad") or torch.compiler.is_compiling():
        return
    wanted = candidates(text.ids, kind, model)
    wanted = wanted if text.mask is None else wanted & (text.mask != 0)
    if not bool(wanted.any(1).all()):
        what = f"that ends it (eos {model.eos})" if kind == "eos" else f"but padding (pad {model.pad})"
        row = int((~wanted.any(1)).nonzero()[0])
        raise ValueError(f"{text.name} has in row {row} no token {what}, but pool is {kind!r}")


def candidates(ids: Tensor, kind: config.Pool, model: config.TransformerConfig) -> Tensor:
    """Which tokens [B, T] may stand for their text; the last of them does."""
    if kind == "eos":
        return sum((ids == i for i in model.eos_ids), ids < 0)
    return ids != (-1 if model.pad is None else model.pad)
