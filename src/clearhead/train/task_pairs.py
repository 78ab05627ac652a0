"""The task for a model with two stacks: to translate sentences."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.generation.text import translate
from clearhead.model.transformer import Transformer
from clearhead.train.data.batches import Pairs, Parts, Shelf
from clearhead.train.data.files import Texts
from clearhead.train.data.ids import Stored
from clearhead.train.data.tokens import ReadPairs, cached
from clearhead.train.recipe import Recipe
from clearhead.train.score import translation_scores
from clearhead.train.start import check_kind, is_large
from clearhead.train.task_text import said, train_part

NOTES = logging.getLogger(__name__)
SCORED = 200  # sentences that are translated at the end of a run


@dataclass
class Translation:
    """A translator of sentences."""

    recipe: Recipe
    texts: Texts

    def data(self, model: Transformer, folder: Path) -> Parts:
        """See Task."""
        read, shelf, tokens = self._reading(model)
        train = train_part(self.recipe, read, self.texts.train, folder, _vocabularies(model), shelf, tokens)
        return Parts(train, *self.kept(model, folder))

    def kept(self, model: Transformer, folder: Path) -> tuple[Shelf, int | None]:
        """See Task."""
        read, shelf, _ = self._reading(model)
        ids = cached(read, self.texts.validation, folder, _vocabularies(model))
        return shelf(ids), int(ids.text_bytes.sum())

    def _reading(self, model: Transformer) -> tuple[ReadPairs, Callable[[Stored], Shelf], int]:
        """How texts become ids, how ids become batches, and tokens per batch."""
        tokenizer, pad = check_kind(model, "translate"), model.config.pad
        assert pad is not None, "check_kind has looked"
        tokens = self.recipe.batch.tokens or (2048 if is_large(self.recipe, self.texts) else 1024)

        def shelf(ids: Stored) -> Shelf:
            if not len(ids.text_bytes):
                raise ValueError(f"no pair is left; recipe.data.longest is {self.recipe.data.longest}, raise it")
            return Pairs(ids.columns["sources"], ids.columns["targets"], tokens, pad, read.start)

        read = ReadPairs(tokenizer, model.config, self.recipe.data)
        return read, shelf, tokens

    @property
    def _languages(self) -> dict[str, str]:
        """Those that the recipe names, as `translate` takes them."""
        asked = {"src_lang": self.recipe.data.src_lang, "tgt_lang": self.recipe.data.tgt_lang}
        return {name: code for name, code in asked.items() if code is not None}

    def samples(self, model: Transformer) -> list[dict[str, str]]:
        """The prompts, or the first sentence that it has not seen, with what the file has."""
        if prompts := self.recipe.watch.prompts:
            return [{"given": text, "sample": said(translate, model, text, self._languages)} for text in prompts]
        source, target = next((row.texts for row in self.texts.validation if row.texts[0].strip()), ("", ""))
        if not source:
            return []
        return [{"given": source, "sample": said(translate, model, source, self._languages), "target": target}]

    def scores(self, model: Transformer) -> dict[str, Any]:
        """BLEU and chrF of the first sentences kept for validation."""
        try:
            return translation_scores(model, self.texts.validation, SCORED, languages=self._languages)
        except ValueError as error:  # texts in pieces can be learned all the same
            NOTES.warning("no BLEU: %s", error)
            return {}


def _vocabularies(model: Transformer) -> dict[str, int]:
    stacks = model.config.stacks
    return {"sources": stacks["encoder"].vocab, "targets": stacks["decoder"].vocab}
