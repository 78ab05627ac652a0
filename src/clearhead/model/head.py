"""From hidden states to one logit per token of the vocabulary."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.feed_forward import activate
from clearhead.model.norm import Norm


class Head(nn.Module):
    """hidden [B, T, D] -> logits [B, T, V]. A tied head owns no matrix: it is given the embedding's."""

    def __init__(self, form: config.Head, model: config.TransformerConfig, stack: config.Stack):
        super().__init__()
        self.form = form
        width = (stack.embedding_dim or model.dim) if form.transform else model.dim
        self.transform = nn.Linear(model.dim, width, bias=form.transform_bias) if form.transform else None
        self.norm = Norm(model.norm, width) if form.transform else None
        self.weight = None if form.tied else nn.Parameter(torch.empty(stack.vocab, width))
        self.bias = nn.Parameter(torch.zeros(stack.vocab)) if form.bias else None

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """embedding [V, D]: the table of the stack below, used when the head is tied."""
        if self.transform is not None and self.norm is not None and self.form.transform is not None:
            hidden = self.norm(activate(self.transform(hidden), self.form.transform))
        if self.form.scale != 1.0:
            hidden = hidden * self.form.scale
        logits = F.linear(hidden, embedding if self.weight is None else self.weight, self.bias)
        if self.form.softcap is not None:
            logits = self.form.softcap * torch.tanh(logits / self.form.softcap)
        return logits
