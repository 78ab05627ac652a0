"""What labels ask of each head, and how far it is from that."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config import AnswerSpan, AnyHead, Head, TextClassifier, TokenClassifier
from clearhead.model.inputs import check_ids

IGNORED = -100


def loss_of(head: AnyHead, logits: Tensor, labels: Tensor, ahead: bool, mask: Tensor | None = None) -> Tensor:
    """Mean over the labels that are not -100; 0 if there are none. Labels are as `check_labels` wants them.

    Cross-entropy, of a language model one position ahead if it is so told. Of an answer, over the tokens of the text
    (mask [B, T], 1 = a token). A TextClassifier for any number of labels: binary cross-entropy, mean over texts and
    labels; for numbers: the squared error.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if isinstance(head, TextClassifier) and head.answer != "one":
        wanted = labels.to(logits.dtype).view_as(logits)
        error = F.mse_loss if head.answer == "number" else F.binary_cross_entropy_with_logits
        return error(logits, wanted)
    if isinstance(head, AnswerSpan):
        logits = logits.mT  # each end chooses one of the tokens
        if mask is not None:
            logits = logits.masked_fill(mask[:, None, -logits.shape[2] :] == 0, -torch.inf)
    elif isinstance(head, Head) and ahead:
        logits, labels = logits[:, :-1], labels[:, 1:]
    total = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum().clamp(min=1)


def check_labels(head: AnyHead, labels: Tensor, batch: int, tokens: int, vocab: int) -> None:
    """ValueError, naming the numbers and the fix, unless there is what this head learns from.

    [B, T] ids of tokens, or numbers of labels (TokenClassifier); [B] numbers of labels (TextClassifier), or [B, L] 0
    and 1 for any of them, or numbers; [B, 2] the places where the answer starts and ends. -100 = none.
    """
    count = len(head.labels) if isinstance(head, TextClassifier | TokenClassifier) else 0
    if isinstance(head, TextClassifier) and head.answer != "one":
        if labels.shape != (batch, count) and (count > 1 or labels.shape != (batch,)):
            raise ValueError(
                f"labels is {list(labels.shape)}, but there are {batch} texts and {count} labels; "
                f"give numbers [{batch}, {count}]"
            )
        return
    if isinstance(head, TextClassifier):
        shape, reason = (batch,), f"there are {batch} texts; give the number of one label for each"
    elif isinstance(head, AnswerSpan):
        shape, reason = (batch, 2), f"there are {batch} texts; give the places where its answer starts and ends"
    else:
        shape, reason = (batch, tokens), f"the ids are [{batch}, {tokens}]; give one for each token"
    if labels.shape != shape:
        raise ValueError(f"labels is {list(labels.shape)}, but {reason}")
    if labels.is_floating_point():
        raise ValueError(
            f"labels is {labels.dtype}; expected int64, the numbers of labels; "
            "for any number of labels, or for numbers, set head.answer"
        )
    limit = count or (tokens if isinstance(head, AnswerSpan) else vocab)
    check_ids("labels", labels.masked_fill(labels == IGNORED, 0), limit)
