"""The task of T5: to say which spans of a text are missing."""

from collections.abc import Callable

import numpy as np
import torch

from clearhead.generation.generate import generate
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.batches import Shelf
from clearhead.train.data.ids import Stored
from clearhead.train.data.spans import Spans, corrupted, sentinels, spans_in, woven
from clearhead.train.task_text import OneText


class Restoration(OneText):
    """An encoder-decoder that says what stood in the place of each sentinel."""

    ahead = 0  # and an end token, which needs a place

    def _edges(self, tokenizer: Tokenizer | Pair) -> None:
        """Only an end, behind what is left of a block."""
        return

    def _shelf(
        self, tokenizer: Tokenizer | Pair, length: int, size: int, pad: int | None
    ) -> Callable[[str], Callable[[Stored], Shelf]]:
        whole = super()._shelf(tokenizer, length, size, pad)
        assert isinstance(tokenizer, Tokenizer), "check_kind has looked"
        assert tokenizer.eos is not None, "check_kind has looked"
        marks, needed, eos = sentinels(tokenizer), spans_in(length)[1] + 1, tokenizer.eos
        if len(marks) < needed:
            raise ValueError(
                f"the tokenizer has {len(marks)} sentinels (<extra_id_0> and so on), but a block of {length} tokens "
                f"needs {needed}; lower batch.block, or use a tokenizer with more"
            )
        return lambda what: lambda ids: Spans(whole(what)(ids), marks, eos)

    def _kept_bytes(self, kept: Stored, shelf: Shelf, tokenizer: Tokenizer | Pair) -> None:
        """Only some tokens are predicted, so nothing can be said about bytes."""
        return

    def samples(self, model: Transformer) -> list[dict[str, str]]:
        """A text, or a prompt, with what the model says in the place of its sentinels; a text without gets some."""
        tokenizer, block = model.tokenizer, self._sizes(model)[0]
        assert isinstance(tokenizer, Tokenizer), "check_kind has looked"
        marks, found = sentinels(tokenizer), list[dict[str, str]]()
        for prompt in self.recipe.watch.prompts or (self._beginning(200),):
            ids = tokenizer.encode(prompt, add_special_tokens=False)[:block]
            if not {*ids} & {*marks}:
                ids = corrupted(np.array(ids), marks, np.random.default_rng(0))[0].tolist()
            read = torch.tensor([[*ids, tokenizer.eos]], device=model.last.table.device)
            said = generate(model, read, max_new_tokens=block)
            assert isinstance(said, torch.Tensor)
            text = tokenizer.decode(woven(ids, said[0].tolist(), marks))
            found.append({"given": tokenizer.decode(ids, False), "sample": text})
        return found
