"""Teacher forcing: what each position is asked to predict, and how wrong it was, counted per target token."""

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from clearhead.config import Head, TextClassifier, TransformerConfig
from clearhead.model.transformer import shift_right

IGNORED = -100
CHUNK = 2**19  # logits that are widened at a time: 2 MB in float32
LOWEST = -100.0  # log-probability that a smoothed loss still counts in full
Batch = dict[str, Tensor]


def moved(batch: Batch, device: torch.device | str) -> Batch:
    """The batch on another device."""
    return {name: tensor.to(device) for name, tensor in batch.items()}


def teach(config: TransformerConfig, batch: Batch) -> tuple[Batch, Tensor]:
    """What the model is fed, and the target [B, T] at each position of its logits (-100 = none).

    The batch holds the model's arguments and `labels` [B, T]. A decoder alone predicts the next label, so that the last
    token is not read; a decoder beside an encoder is fed the labels shifted right, unless the batch holds
    `decoder_input_ids`; an encoder alone predicts them in place. Of a head for labels of texts the targets are labels
    [B]. Raises ValueError for other heads.
    """
    if isinstance(config.head, TextClassifier) and config.head.answer == "one":
        return {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]
    if not isinstance(config.head, Head):
        raise ValueError(
            f"config.head is {type(config.head).__name__.removesuffix('Type')}; teacher forcing needs a Head, which "
            "writes tokens; other heads learn from model(..., labels=...).loss"
        )
    fed = {name: value for name, value in batch.items() if name != "labels"}
    labels = batch["labels"]
    if config.encoder is None:  # nothing follows the last token, so it is not read
        return {name: value[:, :-1] for name, value in fed.items()}, labels[:, 1:]
    if config.decoder is not None and "decoder_input_ids" not in fed:
        start = config.bos if config.start is None else config.start
        if start is None or config.pad is None:
            raise ValueError("teacher forcing needs config.start (or bos) and config.pad; set them")
        fed["decoder_input_ids"] = shift_right(labels, start, config.pad)
    return fed, labels


def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0, pad: int | None = None) -> Tensor:
    """Sum over the labels of the divergence from a smoothed target to the prediction; -100 counts nothing.

    logits [..., V], labels [...]. The target holds 1 - smoothing on the label; the rest is shared by all other tokens
    but pad (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4). Reported as KL divergence: 0 when the
    prediction is exactly that; without smoothing it is the cross-entropy. With it, a token of probability 0 costs at
    most 100 times its share.
    """
    logits, labels = logits.flatten(0, -2), labels.flatten()
    real = labels != IGNORED
    if not bool(real.all()):
        logits, labels = logits[real], labels[real]
    form = _Target(logits.shape[-1], smoothing, pad)
    return cast(Tensor, _Smoothed.apply(logits, labels, form))


@dataclass(frozen=True)
class _Target:
    """The smoothed target over a vocabulary."""

    vocab: int
    smoothing: float
    pad: int | None

    @property
    def share(self) -> float:
        """What each token holds that is neither the label nor pad."""
        return self.smoothing / (self.vocab - (1 if self.pad is None else 2))

    @property
    def least(self) -> float:
        """The target's own entropy, negative: what no prediction can save."""
        s = self.smoothing
        return (1 - s) * math.log(1 - s) + s * math.log(self.share) if s else 0.0

    def loss(self, log_p: Tensor, labels: Tensor) -> Tensor:
        """Of rows of log-probabilities [N, V], summed; with smoothing these must be -100 or more."""
        hit = log_p.gather(-1, labels[:, None]).sum()
        if not self.smoothing:
            return -hit
        others = log_p.sum() - hit - (0 if self.pad is None else log_p[:, self.pad].sum())
        return len(labels) * self.least - (1 - self.smoothing) * hit - self.share * others

    def slope(self, p: Tensor, labels: Tensor) -> Tensor:
        """Prediction minus target, in place of the probabilities [N, V]: the gradient for the logits."""
        if self.smoothing:
            p -= self.share
            if self.pad is not None:
                p[:, self.pad] += self.share
        return p.scatter_add_(-1, labels[:, None], p.new_full((len(labels), 1), self.share - (1 - self.smoothing)))


class _Smoothed(torch.autograd.Function):
    """Loss and gradient in one pass over a few rows at a time: only these are ever widened to float32."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, form: _Target) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        total, step = torch.zeros((), dtype=wide, device=logits.device), max(1, CHUNK // form.vocab)
        ctx.slope = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        for start in range(0, len(labels), step):
            rows = slice(start, start + step)
            log_p = torch.log_softmax(logits[rows], -1, dtype=wide)
            total += form.loss(log_p.clamp(min=LOWEST) if form.smoothing else log_p, labels[rows])
            if ctx.slope is not None:
                ctx.slope[rows] = form.slope(log_p.exp_(), labels[rows])
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        slope, ctx.slope = ctx.slope, None  # once: it is scaled where it lies
        if slope is None:
            raise RuntimeError("the loss's gradient is there once; compute the loss again")
        return slope.mul_(grad_outputs[0]), None, None
