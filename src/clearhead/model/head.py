"""From hidden states to one logit per token of the vocabulary, and the dense layer that a head may begin with."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.feed_forward import activate
from clearhead.model.norm import Norm


class Dense(nn.Module):
    """x [..., D] -> norm(activation(x W)) [..., width]."""

    def __init__(self, form: config.Dense, model: config.TransformerConfig):
        super().__init__()
        self.form = form
        width = form.width or model.dim
        self.linear = nn.Linear(model.dim, width, bias=form.bias)
        self.norm = Norm(model.norm, width) if form.norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        return self.norm(x if self.form.activation is None else activate(x, self.form.activation))


class Head(nn.Module):
    """hidden [B, T, D] -> logits [B, T, V]. A tied head owns no matrix: it is given the embedding's."""

    def __init__(self, form: config.Head, model: config.TransformerConfig, vocab: int):
        super().__init__()
        self.form = form
        self.dense = nn.Identity() if form.dense is None else Dense(form.dense, model)
        width = model.dim if form.dense is None else form.dense.width or model.dim
        self.weight = None if form.tied else nn.Parameter(torch.empty(vocab, width))
        self.bias = nn.Parameter(torch.zeros(vocab)) if form.bias else None

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """embedding [V, D]: the table of the stack below, used when the head is tied."""
        hidden = self.dense(hidden)
        if self.form.scale != 1.0:
            hidden = hidden * self.form.scale
        logits = F.linear(hidden, embedding if self.weight is None else self.weight, self.bias)
        if self.form.softcap is not None:
            logits = self.form.softcap * torch.tanh(logits / self.form.softcap)
        return logits
