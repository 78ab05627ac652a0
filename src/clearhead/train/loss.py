"""Teacher forcing: what each position is asked to predict, and how wrong it was, counted per target token."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config import Head, TransformerConfig
from clearhead.model.transformer import shift_right

IGNORED = -100
Batch = dict[str, Tensor]


def teach(config: TransformerConfig, batch: Batch) -> tuple[Batch, Tensor]:
    """What the model is fed, and the target [B, T] at each position of its logits (-100 = none).

    The batch holds the model's arguments and `labels` [B, T]. A decoder alone predicts the next label; a decoder beside
    an encoder is fed the labels shifted right, unless the batch holds `decoder_input_ids`; an encoder alone predicts
    them in place. Raises ValueError for a model whose head does not write tokens.
    """
    if not isinstance(config.head, Head):
        raise ValueError(
            f"config.head is {type(config.head).__name__.removesuffix('Type')}; teacher forcing needs a Head, which "
            "writes tokens; other heads learn from model(..., labels=...).loss"
        )
    fed = {name: value for name, value in batch.items() if name != "labels"}
    labels = batch["labels"]
    if config.encoder is None:
        return fed, torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)], dim=1)
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
    prediction is exactly that; without smoothing it is the cross-entropy. A token of probability 0 costs at most 100
    times its share of the smoothing.
    """
    logits, labels = logits.flatten(0, -2), labels.flatten()
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if smoothing == 0.0:
        return F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
    real = labels != IGNORED
    logits, labels = logits[real], labels[real]
    others = logits.shape[-1] - (1 if pad is None else 2)
    share = smoothing / others
    log_p = logits.log_softmax(-1)
    hit = log_p.gather(-1, labels[:, None]).squeeze(-1)
    log_p = log_p.clamp(min=-100.0)
    elsewhere = log_p.sum(-1) - log_p.gather(-1, labels[:, None]).squeeze(-1)
    elsewhere = elsewhere if pad is None else elsewhere - log_p[:, pad]
    least = (1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(share)
    return (least - (1 - smoothing) * hit - share * elsewhere).sum()
