"""Span corruption (Raffel et al. 2020, section 3.1.4): sentinels in the place of spans, and the spans as the target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers
import torch

from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.batches import Keys
from clearhead.train.data.ids import Numbers
from clearhead.train.data.masked import SHARE, Corrupted
from clearhead.train.loss import Batch

LENGTH = 3  # tokens of a span, in the mean
SENTINEL = "<extra_id_{}>"


@dataclass(frozen=True)
class Spans(Corrupted):
    """Rows with a sentinel for each span, and the spans as labels, each behind its sentinel; both end in eos.

    inner: rows of equal length, so that those of a batch stay equal. sentinels: ids, in their order.
    """

    sentinels: Sequence[int]
    eos: int

    def _corrupted(self, batch: Batch, keys: Keys) -> Batch:
        rows = zip(batch["input_ids"].numpy(), keys, strict=True)
        drawn = [corrupted(row, self.sentinels, np.random.default_rng(key)) for row, key in rows]
        given, asked = (np.array([[*pair[side], self.eos] for pair in drawn]) for side in (0, 1))
        return {"input_ids": torch.from_numpy(given), "labels": torch.from_numpy(asked)}


def spans_in(length: int) -> tuple[int, int]:
    """How many of so many tokens are taken out, and in how many spans: 15 %, of 3 tokens in the mean."""
    taken = min(max(round(length * SHARE), 1), length - 1)
    return taken, max(round(taken / LENGTH), 1)


def corrupted(ids: Numbers, sentinels: Sequence[int], rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """What is left of ids [T], and the target: the spans behind their sentinels, and a sentinel that ends them.

    A row begins with what is left and ends with a span, and all ways to cut are equally likely, as in the paper's code.
    The last sentinel is that of its figure 2. Raises IndexError for fewer than spans + 1 sentinels.
    """
    taken, spans = spans_in(len(ids))
    lengths = np.stack([_cut(len(ids) - taken, spans, rng), _cut(taken, spans, rng)], axis=1)  # of both in turns
    pieces = np.split(ids, np.cumsum(lengths)[:-1])
    given = [[*piece, mark] for piece, mark in zip(pieces[0::2], sentinels, strict=False)]
    asked = [[mark, *piece] for piece, mark in zip(pieces[1::2], sentinels, strict=False)]
    return np.concatenate(given), np.concatenate([*asked, [sentinels[spans]]])


def _cut(total: int, parts: int, rng: np.random.Generator) -> Numbers:
    """Lengths of so many parts, none of them 0."""
    borders = np.sort(rng.permutation(total - 1)[: parts - 1]) + 1
    return np.diff(borders, prepend=0, append=total)


def woven(given: Sequence[int], asked: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """What is left of a text, with what the target says in the place of each sentinel."""
    marks, said = {*sentinels}, dict[int, list[int]]()
    at: list[int] = []  # what stands in front of the first sentinel belongs nowhere
    for i in asked:
        if i in marks:
            at = said.setdefault(i, [])
        else:
            at.append(i)
    return [j for i in given for j in (said.get(i, []) if i in marks else [i])]


def sentinels(tokenizer: Tokenizer) -> list[int]:
    """The ids of <extra_id_0>, <extra_id_1> and so on, as far as the tokenizer has them."""
    found = list[int]()
    while (i := tokenizer.inner.token_to_id(SENTINEL.format(len(found)))) is not None:
        found.append(i)
    return found


def add_sentinels(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """The same tokenizer with so many sentinels behind its vocabulary, where T5 has them too."""
    assert isinstance(tokenizer.inner, tokenizers.Tokenizer), "it was learned here"
    tokenizer.inner.add_special_tokens([SENTINEL.format(i) for i in range(size)])
    return tokenizer
