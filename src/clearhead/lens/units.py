"""What an alignment links: the tokens of a side, or its words, each of one or more tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.lens.inputs import Words, names, tokenizer_of
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair


class Units(NamedTuple):
    """Names of N units, whether each may be linked, and which tokens it consists of."""

    names: list[str]
    plain: list[bool]
    of: Tensor  # [T N] 1 where token t belongs to unit n


def tokens(model: Transformer, ids: Tensor | None, count: int, stack: str) -> Units:
    """Each token is a unit; special tokens are not linked. ids [T], or None for T = `count` places of a sound."""
    if ids is None:
        return Units([str(i) for i in range(count)], [True] * count, torch.eye(count))
    form, side = model.config, model.tokenizer
    if isinstance(side, Pair):
        side = side.target if stack == "decoder" else side.source
    special = {form.pad, form.bos, form.start, *form.eos_ids}
    special |= set() if side is None else {side.pad, side.bos, side.eos, side.cls, side.sep, side.mask}
    return Units(names(model, ids, stack), [i not in special for i in ids.tolist()], torch.eye(count))


def words(model: Transformer, text: Words, count: int, stack: str) -> Units:
    """Each word, between blanks, is a unit; special tokens belong to none. Raises ValueError for what is no text."""
    if not isinstance(text, str):
        raise ValueError("words=True needs texts, in which the words can be seen; give texts, or words=False")
    offsets = tokenizer_of(model).offsets(text, target=stack == "decoder")
    spans = list(re.finditer(r"\S+", text))
    of = torch.zeros(count, len(spans))
    for token, offset in enumerate(offsets[-count:]):  # the token that the decoder is fed first is not written
        for word, span in enumerate(spans):
            if offset is not None and offset[0] < span.end() and span.start() < offset[1]:
                of[token, word] = 1.0
    return Units([span[0] for span in spans], [True] * len(spans), of)


def gathered(weights: Tensor, source: Units, target: Units) -> Tensor:
    """Weights [target tokens, source tokens] of units [N, M]: summed over the source's, the mean of the target's."""
    sizes = target.of.sum(0).clamp(min=1)
    return (target.of / sizes).to(weights).mT @ weights @ source.of.to(weights)


def linked(weights: Tensor, source: Units, target: Units) -> list[tuple[int, int]]:
    """(source, target) of the largest weight of each row [target, source], where both may be linked."""
    best: list[int] = weights.argmax(-1).tolist()
    return [(s, t) for t, s in enumerate(best) if source.plain[s] and target.plain[t]]
