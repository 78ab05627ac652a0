"""What a model can be trained to do, from files: go on with a text, or translate sentences."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from clearhead.families.presets import small_lm, small_translator
from clearhead.generation.text import complete, translate
from clearhead.model.transformer import Transformer
from clearhead.text.build import bpe_tokenizer, char_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data import Parts, blocks, cut, pairs, read_pairs, read_text

LARGE = 2_000_000  # characters, from which on a text is worth pieces of words and a wider model
MANY = 5_000  # sentence pairs, likewise


class Task(Protocol):
    """Texts that were read, and the model that fits them."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that was read."""
        ...

    def new(self) -> Transformer:
        """A model for these texts, drawn from torch's global generator, with its tokenizer."""
        ...

    def data(self, model: Transformer) -> Parts:
        """In batches for this model. Raises ValueError if it is of another kind, or if the texts are too short."""
        ...

    @property
    def kept_bytes(self) -> int:
        """What the model is to predict in validation, in bytes of UTF-8."""
        ...

    def sample(self, model: Transformer) -> dict[str, str]:
        """Something that the model says, by what it is."""
        ...


@dataclass(frozen=True)
class Continuation:
    """A language model of one text."""

    text: str

    @classmethod
    def read(cls, file: Path) -> "Continuation":
        """Raises ValueError for a file that is missing, empty or not UTF-8."""
        return cls(read_text(file))

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    def new(self) -> Transformer:
        large = len(self.text) >= LARGE
        begun = self.text[: cut(len(self.text))].split("\n")
        tokenizer = bpe_tokenizer(begun, _pieces(len(self.text))) if large else char_tokenizer([self.text])
        config = small_lm(len(tokenizer), dim=384 if large else 128)
        return _with(tokenizer, Transformer(replace(config, pad=tokenizer.pad, bos=tokenizer.bos, eos=tokenizer.eos)))

    def data(self, model: Transformer) -> Parts:
        tokenizer = _tokenizer(model)
        if model.encoder is not None:
            raise ValueError("the model has an encoder, but a language model is a decoder alone; use train translate")
        length, size = (256, 16) if len(self.text) >= LARGE else (64, 16)
        return blocks(self.text, tokenizer, model.config, length, size)

    @property
    def kept_bytes(self) -> int:
        return len(self.text[cut(len(self.text)) + 1 :].encode())  # the first token is given

    def sample(self, model: Transformer) -> dict[str, str]:
        """How it goes on after the first words of what it has not seen."""
        torch.manual_seed(0)
        table = model.last.form.positions
        room = 400 if table is None or table.count is None else min(table.count, 400)
        prompt = (self.text[cut(len(self.text)) :].strip() or self.text.strip())[: max(room // 10, 1)]
        return {"sample": complete(model, prompt, max_new_tokens=room // 2, do_sample=True, temperature=0.8)}


@dataclass(frozen=True)
class Translation:
    """A translator of lines that belong together."""

    sources: list[str]
    targets: list[str]

    @classmethod
    def read(cls, source: Path, target: Path) -> "Translation":
        """Raises ValueError for files that are missing, empty or not UTF-8, or that differ in their lines."""
        return cls(*read_pairs(source, target))

    @property
    def texts(self) -> tuple[str, ...]:
        return ("\n".join(self.sources), "\n".join(self.targets))

    def new(self) -> Transformer:
        at = cut(len(self.sources))
        read, written = (lines[:at] for lines in (self.sources, self.targets))
        source = bpe_tokenizer(read, _pieces(sum(map(len, read))), eos=True)
        target = bpe_tokenizer(written, _pieces(sum(map(len, written))), bos=True, eos=True)
        dim = 256 if len(self.sources) >= MANY else 128
        return _with(Pair(source, target), Transformer(small_translator(len(source), len(target), dim)))

    def data(self, model: Transformer) -> Parts:
        return pairs(self.sources, self.targets, _tokenizer(model), model.config, size=64)

    @property
    def kept_bytes(self) -> int:
        return sum(len(line.encode()) + 1 for line in self.targets[cut(len(self.targets)) :])  # an end of line each

    def sample(self, model: Transformer) -> dict[str, str]:
        """The first sentence that it has not seen, what it makes of it, and what the file has."""
        source, target = (lines[cut(len(lines))] for lines in (self.sources, self.targets))
        return {"source": source, "sample": translate(model, source) if source.strip() else "", "target": target}


def _pieces(characters: int) -> int:
    """The size of a vocabulary of byte pairs for so much text."""
    return min(max(512, characters // 100), 8000)


def _with(tokenizer: Tokenizer | Pair, model: Transformer) -> Transformer:
    model.tokenizer = tokenizer
    return model


def _tokenizer(model: Transformer) -> Tokenizer | Pair:
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer; save one beside its weights first")
    return model.tokenizer
