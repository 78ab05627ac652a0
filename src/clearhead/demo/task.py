"""The demo's data and models: numbers spelled in two languages, set as a task for each kind of model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.demo import numbers
from clearhead.demo.spell import Language, pieces, spell
from clearhead.model.transformer import shift_right
from clearhead.text.batch import length_buckets, pad
from clearhead.text.build import char_tokenizer, piece_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.loss import IGNORED, Batch

Kind = Literal["translation", "lm", "encoder"]
Units = Literal["pieces", "letters"]
EQUALS = " = "  # between source and target where one model reads both as one text
PAD, BEGIN, END = 0, 1, 2  # as in every tokenizer that text/build.py makes
NOISE: dict[Units, float] = {"pieces": 0.3, "letters": 0.1}  # share of wrong tokens that a decoder is fed in training
POOL, SIZE = 512, 64  # numbers drawn at a time, and cut by length into batches of this size


@dataclass(frozen=True, kw_only=True)
class Task:
    """translation: the source is read by an encoder, the target written by a decoder. lm: one decoder reads and goes on
    with "source = target". encoder: it reads the same text with target pieces masked, and names them.
    """

    kind: Kind = "translation"
    to: Language = "de"
    units: Units = "pieces"

    def __post_init__(self) -> None:
        if self.units == "letters" and self.kind != "translation":
            raise ValueError(f"kind={self.kind!r} works on pieces; letters are for kind='translation'")

    @cached_property
    def tokenizer(self) -> Tokenizer | Pair:
        """A pair for a translation; one tokenizer for both languages otherwise."""
        if self.kind == "translation":
            both = numbers.tokenizer(self.to)
            if self.units == "pieces":
                return both
            spelled = (spell(n, self.to) for n in numbers.SAMPLE)
            return Pair(both.source, char_tokenizer(spelled, bos=True, eos=True))
        known = {p.text for n in numbers.SAMPLE for language in ("en", self.to) for p in pieces(n, language)}
        return piece_tokenizer([EQUALS, *sorted(known)], bos=True, mask=True)

    def batch(self, drawn: NDArray[np.int64]) -> Batch:
        """Model arguments and labels for these numbers."""
        sources = [spell(int(n), "en") for n in drawn]
        targets = [spell(int(n), self.to) for n in drawn]
        if isinstance(self.tokenizer, Pair):
            labels = self.tokenizer(targets, target=True)
            labels = labels["input_ids"][:, 1:].masked_fill(labels["attention_mask"][:, 1:] == 0, IGNORED)
            return {**self.tokenizer(sources), "labels": labels}
        begun = [self.tokenizer.encode(source + EQUALS) for source in sources]
        whole = [[*self.tokenizer.encode(s + EQUALS + t), END] for s, t in zip(sources, targets, strict=True)]
        ids, mask = pad(whole, PAD)
        asked = (torch.arange(ids.shape[1]) >= torch.tensor([len(row) for row in begun])[:, None]) & (mask == 1)
        if self.kind == "encoder":
            asked &= ids != END
            assert self.tokenizer.mask is not None
            labels, ids = ids, ids.masked_fill(asked, self.tokenizer.mask)
        else:
            labels = ids
        return {"input_ids": ids, "attention_mask": mask, "labels": labels.masked_fill(~asked, IGNORED)}

    def lesson(self, drawn: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        """A batch to train on: an encoder is shown some of the target, a decoder is fed some wrong pieces.

        A decoder that cannot trust what it wrote reads the source. Otherwise "sieben" comes to be followed by what
        followed it in training, and a number that ends in 7 is lost.
        """
        batch = self.batch(drawn)
        labels = batch["labels"]
        chance = torch.from_numpy(rng.random(tuple(labels.shape)))
        if self.kind == "encoder":
            shown = (labels != IGNORED) & (chance > torch.from_numpy(rng.random((len(labels), 1))))
            seen = torch.where(shown, labels, batch["input_ids"])
            return {**batch, "input_ids": seen, "labels": labels.masked_fill(shown, IGNORED)}
        vocab = len(self.tokenizer.target if isinstance(self.tokenizer, Pair) else self.tokenizer)
        other = torch.from_numpy(rng.integers(END + 1, vocab, tuple(labels.shape)))
        noise = NOISE[self.units]
        if self.kind == "lm":
            wrong = (labels != IGNORED) & (chance < noise)
            return {**batch, "input_ids": torch.where(wrong, other, batch["input_ids"])}
        chance[:, 0] = 1.0  # the beginning stays
        fed = torch.where(chance < noise, other, shift_right(labels, BEGIN, PAD))
        return {**batch, "decoder_input_ids": fed}

    def stream(self, seed: int) -> Iterator[Batch]:
        """Training batches without end: numbers drawn evenly, those of like length together."""
        rng = np.random.default_rng(seed)
        pool = numbers.members("train")
        while True:
            drawn = rng.choice(pool, POOL)
            for chosen in length_buckets([len(spell(int(n), self.to)) for n in drawn], SIZE, rng):
                yield self.lesson(drawn[chosen], rng)

    def config(self, positions: Literal["sinusoidal", "none"] = "sinusoidal") -> TransformerConfig:
        """The model: width 64, four heads, two encoder layers and one decoder layer; three layers where there is one
        stack. `positions` are the encoder's (a lone decoder's, in a language model).
        """
        look = Attention(heads=4, bias="qkvo")
        reader = Layer(self_attention=look, feed_forward=FeedForward(dim=128))
        writer = replace(reader, self_attention=replace(look, causal=True))
        sinusoids = Positions(kind="interleaved")
        given = sinusoids if positions == "sinusoidal" else None
        encoder_stack, decoder_stack = None, None
        if isinstance(self.tokenizer, Pair):
            source, target = len(self.tokenizer.source), len(self.tokenizer.target)
            writer = replace(writer, cross_attention=look)
            encoder_stack = Stack(layers=(reader,) * 2, vocab=source, positions=given, norm_out=True)
            decoder_stack = Stack(layers=(writer,), vocab=target, positions=sinusoids, norm_out=True)
        elif self.kind == "lm":
            decoder_stack = Stack(layers=(writer,) * 3, vocab=len(self.tokenizer), positions=given, norm_out=True)
        else:
            encoder_stack = Stack(layers=(reader,) * 3, vocab=len(self.tokenizer), positions=given, norm_out=True)
        return TransformerConfig(
            dim=64,
            encoder=encoder_stack,
            decoder=decoder_stack,
            head=Head(tied=False, bias=True),
            pad=PAD,
            bos=BEGIN,
            eos=END,
        )
