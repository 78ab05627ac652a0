"""How good a demo model is: exact match by free decoding, and where its cross-attention looks."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.demo.numbers import gold
from clearhead.demo.spell import pieces, spell
from clearhead.demo.task import EQUALS, IGNORED, Task
from clearhead.generation.generate import generate
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.train.loss import moved

CHUNK = 500  # numbers decoded at a time
LONGEST = {"pieces": 24, "letters": 100}  # tokens of the longest target, and some


def answers(model: Transformer, task: Task, numbers: NDArray[np.int64]) -> list[str]:
    """What the model makes of each number: decoded greedily, or by an encoder all pieces filled in at once."""
    answer = _filled if task.kind == "encoder" else _written
    chunks = [numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK)]
    return [text for chunk in chunks for text in answer(model, task, chunk)]


def _written(model: Transformer, task: Task, numbers: NDArray[np.int64]) -> list[str]:
    translates = isinstance(task.tokenizer, Pair)
    fed = task.tokenizer([spell(int(n), "en") + ("" if translates else EQUALS) for n in numbers], padding_side="left")
    ids = generate(model, **moved(fed, model.last.table.device), max_new_tokens=LONGEST[task.units])
    assert isinstance(ids, Tensor)
    return task.tokenizer.decode_batch(ids if translates else ids[:, fed["input_ids"].shape[1] :])


def _filled(model: Transformer, task: Task, numbers: NDArray[np.int64]) -> list[str]:
    batch = moved(task.batch(numbers), model.last.table.device)
    asked = batch["labels"] != IGNORED
    with torch.no_grad():
        logits = model(batch["input_ids"], batch["attention_mask"]).logits
    assert logits is not None
    return [task.tokenizer.decode(row[blank]) for row, blank in zip(logits.argmax(-1), asked, strict=True)]


@dataclass(frozen=True)
class Match:
    """A share of exactly right answers."""

    right: int
    count: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.right / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the share (Wilson 1927)."""
        z, n, p = 1.959964, self.count, self.share
        middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)

    def __add__(self, other: "Match") -> "Match":
        return Match(self.right + other.right, self.count + other.count)


def exact_match(model: Transformer, task: Task, numbers: NDArray[np.int64]) -> Match:
    """How many numbers come out letter by letter as they are spelled."""
    found = answers(model, task, numbers)
    return Match(sum(text == spell(int(n), task.to) for text, n in zip(found, numbers, strict=True)), len(numbers))


def cross_weights(model: Transformer, task: Task, numbers: NDArray[np.int64]) -> Tensor:
    """Weights [B, L*H, Q, K] of every cross-attention head, layer by layer, while the right answers are being written.

    Query t is the one that predicts target token t.
    """
    with record(model, ["decoder.*.cross.weights"]) as seen, torch.no_grad():
        model(**moved(task.batch(numbers), model.last.table.device))
    return torch.cat([w.dense() for w in seen.values() if isinstance(w, Weights)], dim=1)


def alignment(model: Transformer, task: Task, numbers: NDArray[np.int64]) -> list[Match]:
    """For each cross-attention head, how often its largest weight lies on the gold source word.

    Counted where a target piece has one (German "und" has none), and where a target is written letter by letter at the
    first letter of each piece: there the piece is decided.
    """
    looked = cross_weights(model, task, numbers).argmax(-1).cpu()  # [B L*H Q]
    places = [(b, t, word) for b, n in enumerate(numbers) for t, word in _decisions(task, int(n))]
    sample, query, word = (torch.tensor(column) for column in zip(*places, strict=True))
    hits = looked[sample, :, query] == word[:, None]  # [places L*H]
    return [Match(int(right), len(places)) for right in hits.sum(0)]


def _decisions(task: Task, n: int) -> list[tuple[int, int]]:
    """(target token, source word) for each piece that has a gold word."""
    found: list[tuple[int, int]] = []
    token = 0
    for piece, word in zip(pieces(n, task.to), gold(n, task.to), strict=True):
        if word is not None:
            found.append((token, word))
        token += len(piece.text) if task.units == "letters" else 1
    return found
