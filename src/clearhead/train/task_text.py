"""Tasks on plain text: to go on with it, or to fill its gaps."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clearhead.generation.text import complete
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.text.settings import SPECIALS
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.batches import Blocks, Data, Parts, Shelf
from clearhead.train.data.files import Part, Texts
from clearhead.train.data.ids import Stored
from clearhead.train.data.masked import Masked
from clearhead.train.data.packed import Packed
from clearhead.train.data.streamed import Streamed, slabs
from clearhead.train.data.tokens import Reading, ReadText, cached
from clearhead.train.recipe import Recipe
from clearhead.train.start import block_of, check_kind, is_large

NOTES = logging.getLogger(__name__)
SLAB = 64  # batches that a stream reads at a time


@dataclass
class OneText:
    """Running text or documents, in blocks."""

    recipe: Recipe
    texts: Texts

    ahead = 1  # tokens that a block needs beyond those that it predicts
    places = 1  # that the model needs beyond those of a block

    def data(self, model: Transformer, folder: Path) -> Parts:
        """See Task."""
        read, made, tokens = self._reading(model)
        train = train_part(self.recipe, read, self.texts.train, folder, _vocab(model), made("train"), tokens)
        return Parts(train, *self.kept(model, folder))

    def kept(self, model: Transformer, folder: Path) -> tuple[Shelf, int | None]:
        """See Task."""
        read, made, _ = self._reading(model)
        ids = cached(read, self.texts.validation, folder, _vocab(model))
        shelf = made("validate")(ids)
        return shelf, self._kept_bytes(ids, shelf, read.tokenizer)

    def _reading(self, model: Transformer) -> tuple[ReadText, Callable[[str], Callable[[Stored], Shelf]], int]:
        """How texts become ids, how ids become batches, and tokens per batch."""
        tokenizer = check_kind(model, self.recipe.task)
        length, size = self._sizes(model)
        end = tokenizer.eos if isinstance(tokenizer, Pair) or tokenizer.eos is not None else tokenizer.sep
        first = tokenizer.bos if self.recipe.batch.pack and self.ahead else None
        read = ReadText(tokenizer, first, None if self._edges(tokenizer) else end)
        return read, self._shelf(tokenizer, length, size, model.config.pad), length * size

    def _sizes(self, model: Transformer) -> tuple[int, int]:
        """Tokens of a block, and blocks per batch."""
        asked, large = self.recipe.batch, is_large(self.recipe, self.texts)
        tables = [stack.positions for stack in model.config.stacks.values()]
        counts = [table.count - self.places for table in tables if table is not None and table.count is not None]
        limit = min(counts, default=None)
        if asked.block is not None and limit is not None and asked.block > limit:
            raise ValueError(f"recipe.batch.block is {asked.block}, but the model has positions for {limit}; lower it")
        length = asked.block or min(block_of(self.recipe, self.texts), limit or 256)
        return length, max((asked.tokens or (4096 if large else 1024)) // length, 1)

    def _edges(self, tokenizer: Tokenizer | Pair) -> tuple[int, int] | None:
        """What an encoder's tokenizer puts around a text."""
        if self.ahead or isinstance(tokenizer, Pair) or tokenizer.cls is None or tokenizer.sep is None:
            return None
        return tokenizer.cls, tokenizer.sep

    def _shelf(
        self, tokenizer: Tokenizer | Pair, length: int, size: int, pad: int | None
    ) -> Callable[[str], Callable[[Stored], Shelf]]:
        edges, asked = self._edges(tokenizer), self.recipe.batch

        def made(what: str) -> Callable[[Stored], Shelf]:
            def shelf(ids: Stored) -> Shelf:
                rows, least = ids.columns["ids"], 2 if what == "validate" or asked.pack else length + self.ahead
                if rows.total < least:
                    raise ValueError(
                        f"the text to {what} on has {rows.total} tokens, but needs {least}; give a longer text"
                        + (", or a smaller batch.block" if least > 2 else "")
                    )
                if asked.pack:
                    packed = Packed(rows, ids.begins, length, size, pad or 0, self.ahead, edges)
                    if not len(packed.pieces[0]):
                        raise ValueError(
                            f"no text to {what} on has 2 tokens; give longer ones, or leave out batch.pack"
                        )
                    return packed
                return Blocks(rows, length, size, self.ahead, edges)

            return shelf

        return made

    def _kept_bytes(self, kept: Stored, shelf: Shelf, tokenizer: Tokenizer | Pair) -> int | None:
        """What is to be predicted in validation, in bytes of UTF-8."""
        assert isinstance(shelf, Blocks | Packed), "gaps know nothing of bytes"
        given = sum(len(tokenizer.decode([int(i)]).encode()) for i in shelf.given)
        return int(kept.text_bytes.sum()) - given

    def scores(self, model: Transformer) -> dict[str, Any]:
        """Nothing."""
        return {}

    def _beginning(self, characters: int) -> str:
        """Of what is kept for validation."""
        text = next((row.texts[0].strip() for row in self.texts.validation if row.texts[0].strip()), "")
        return text[:characters] or next(row.texts[0].strip() for row in self.texts.train)[:characters]


class Continuation(OneText):
    """A language model."""

    def samples(self, model: Transformer) -> list[dict[str, str]]:
        """How it goes on."""
        torch.manual_seed(0)
        table = model.last.form.positions
        room = 400 if table is None or table.count is None else min(table.count, 400)
        prompts = self.recipe.watch.prompts or (self._beginning(max(room // 10, 1)),)
        options: dict[str, Any] = {"max_new_tokens": room // 2, "do_sample": True, "temperature": 0.8}
        return [{"given": text, "sample": said(complete, model, text, options)} for text in prompts]


class Filling(OneText):
    """An encoder that fills gaps."""

    ahead = places = 0

    def _shelf(
        self, tokenizer: Tokenizer | Pair, length: int, size: int, pad: int | None
    ) -> Callable[[str], Callable[[Stored], Shelf]]:
        whole = super()._shelf(tokenizer, length, size, pad)
        assert isinstance(tokenizer, Tokenizer), "check_kind has looked"
        assert tokenizer.mask is not None, "check_kind has looked"
        mask, own = tokenizer.mask, [getattr(tokenizer, kind) for kind in SPECIALS]
        words = np.setdiff1d(np.arange(len(tokenizer)), [i for i in own if i is not None])
        return lambda what: lambda ids: Masked(whole(what)(ids), mask, words)

    def _kept_bytes(self, kept: Stored, shelf: Shelf, tokenizer: Tokenizer | Pair) -> None:
        """Only some tokens are predicted, so nothing can be said about bytes."""
        return

    def samples(self, model: Transformer) -> list[dict[str, str]]:
        """Every seventh token of a text, or each mask token of a prompt, filled with the likeliest."""
        tokenizer = model.tokenizer
        assert isinstance(tokenizer, Tokenizer), "check_kind has looked"
        found: list[dict[str, str]] = []
        for prompt in self.recipe.watch.prompts or (self._beginning(200),):
            ids = torch.tensor([tokenizer.encode(prompt)])[:, : self._sizes(model)[0]]
            if not bool((ids == tokenizer.mask).any()):
                ids[:, 3::7] = tokenizer.mask or 0
            with torch.no_grad():
                logits = model(ids.to(model.last.table.device)).logits
            assert logits is not None, "check_kind has looked at the head"
            filled = torch.where(ids == tokenizer.mask, logits.argmax(-1).cpu(), ids)
            found.append({"given": tokenizer.decode(ids[0], False), "sample": tokenizer.decode(filled[0])})
        return found


def _vocab(model: Transformer) -> dict[str, int]:
    """Of the ids that every stack knows."""
    return {"ids": min(stack.vocab for stack in model.config.stacks.values())}


def train_part(
    recipe: Recipe,
    read: Reading,
    part: Part,
    folder: Path,
    vocab: dict[str, int],
    shelf: Callable[[Stored], Shelf],
    tokens: int,
) -> Data:
    """What is trained on: read while training, or from ids that are kept in the folder."""
    if recipe.data.stream:
        return Streamed(slabs(read, part, SLAB * tokens), shelf)
    return shelf(cached(read, part, folder, vocab))


def said(say: Callable[..., str], model: Transformer, text: str, options: dict[str, Any]) -> str:
    """What the model says to a text; nothing if it cannot, such as to one that is too long: no run ends for that."""
    try:
        return say(model, text, **options)
    except ValueError as error:
        NOTES.warning("no sample for %r: %s", text[:40], error)
        return ""
