"""Pairs of models: one of the home library, and what we load from its files."""

import atexit
import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging

import clearhead
from clearhead.config import AnswerSpan, Head, TextEmbedding
from clearhead.model.transformer import Transformer
from truth.heads import HEADS
from truth.homes import BINS, HEARD, HOMES, randomised

FOLDERS = tempfile.TemporaryDirectory(prefix="clearhead-truth-")
atexit.register(FOLDERS.cleanup)
LIMIT = 1e-5  # for float32, on logits of size 5
logging.set_verbosity_error()
logging.disable_progress_bar()


@dataclass(frozen=True)
class Case:
    """A tiny model of the home library, its folder, and what we load from it."""

    home: Any
    ours: Transformer
    folder: Path

    @property
    def two(self) -> bool:
        return self.ours.encoder is not None and self.ours.decoder is not None

    @property
    def pad(self) -> int:
        return self.ours.config.pad or 0

    @property
    def hears(self) -> bool:
        return self.ours.encoder is not None and self.ours.encoder.form.audio is not None

    def inputs(self, ids: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """With two stacks the decoder reads another text, one token shorter. Sound comes instead of ids and mask."""
        given = {"input_ids": ids} if mask is None else {"input_ids": ids, "attention_mask": mask}
        given = {"input_features": sound(len(ids))} if self.hears else given
        if not self.two or not isinstance(self.ours.config.head, Head | None):
            return given
        return {**given, "decoder_input_ids": text(len(ids), ids.shape[1] - 1, seed=7)}

    def theirs(self, **inputs: Any) -> Tensor:
        return self.answer(self.home(**inputs))

    def answer(self, found: Any) -> Tensor:
        """What its home library's output holds for this kind of head."""
        head = self.ours.config.head
        if isinstance(head, AnswerSpan):
            return torch.stack([found.start_logits, found.end_logits], dim=-1)
        if isinstance(head, TextEmbedding):
            return found.pooler_output
        return found.last_hidden_state if head is None else found.logits

    def mine(self, **inputs: Any) -> Tensor:
        return result(self.ours(**inputs))


def result(found: Any) -> Tensor:
    return next(value for value in (found.logits, found.embedding, found.hidden) if value is not None)


@functools.cache
def case(name: str) -> Case:
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp(dir=FOLDERS.name))
    home = randomised({**HOMES, **HEADS}[name]())
    home.save_pretrained(folder)
    return Case(type(home).from_pretrained(folder).eval(), clearhead.load(folder), folder)


def text(batch: int, tokens: int, seed: int = 0) -> Tensor:
    return torch.randint(5, 36, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def sound(batch: int, seed: int = 0) -> Tensor:
    """As long as the home library wants it."""
    return torch.randn(batch, BINS, 2 * HEARD, generator=torch.Generator().manual_seed(seed))


def difference(mine: Tensor, theirs: Tensor) -> float:
    """The largest, as if the largest logit were 5."""
    return float((mine - theirs).abs().max() * 5 / theirs.abs().max())


def close(mine: Tensor, theirs: Tensor, limit: float = LIMIT) -> None:
    size = float(theirs.abs().max())
    assert 1 < size < 20, "logits of about size 5"
    assert difference(mine, theirs) <= limit
