"""The task for a model whose head says labels: which of them a text has."""

import logging
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.config import TextClassifier
from clearhead.model.classify import classify
from clearhead.model.transformer import Transformer
from clearhead.train.data.batches import Examples, Keys, Pairs, Parts, Shelf
from clearhead.train.data.files import Part, Texts
from clearhead.train.data.tokens import ReadLabels, cached
from clearhead.train.labels import macro_f1
from clearhead.train.loss import Batch
from clearhead.train.recipe import Recipe
from clearhead.train.start import check_kind

NOTES = logging.getLogger(__name__)
SHOWN = 3  # texts


@dataclass(frozen=True)
class Labelled(Pairs):
    """Texts and the numbers of their labels, texts of like length together."""

    def batch(self, chosen: Examples, keys: Keys = ()) -> Batch:
        """See Data. labels [B]."""
        found = super().batch(chosen, keys)
        return {**found, "labels": found["labels"][:, 0]}


@dataclass
class Labelling:
    """A classifier of texts."""

    recipe: Recipe
    texts: Texts

    def data(self, model: Transformer, folder: Path) -> Parts:
        """See Task."""
        return Parts(self._shelf(model, self.texts.train, folder), *self.kept(model, folder))

    def kept(self, model: Transformer, folder: Path) -> tuple[Shelf, int | None]:
        """See Task."""
        return self._shelf(model, self.texts.validation, folder), None

    def _shelf(self, model: Transformer, part: Part, folder: Path) -> Labelled:
        read = ReadLabels(check_kind(model, "classify"), model.config, self.recipe.data, labels_in(model))
        ids = cached(read, part, folder, {"texts": model.last.form.vocab, "labels": len(read.labels)})
        if not len(ids.text_bytes):
            raise ValueError(f"no text is left; recipe.data.longest is {self.recipe.data.longest}, raise it")
        return Labelled(ids.columns["texts"], ids.columns["labels"], self.recipe.batch.tokens or 2048, read.pad)

    def samples(self, model: Transformer) -> list[dict[str, str]]:
        """The likeliest label of the prompts, or of the first texts kept for validation, with what the file has."""
        rows: list[tuple[str, str | None]] = [(text, None) for text in self.recipe.watch.prompts]
        kept = (row.texts for row in self.texts.validation if row.texts[0].strip())
        rows = rows or [(text, label) for text, label in islice(kept, SHOWN)]
        said = _said(model, [text for text, _ in rows])
        return [
            {"given": text, "sample": f"{name} ({one[name]:.1%})", **({} if label is None else {"target": label})}
            for (text, label), one in zip(rows, said, strict=False)
            for name in [next(iter(one))]
        ]

    def scores(self, model: Transformer) -> dict[str, Any]:
        """The mean F1 of the labels."""
        rows = [row.texts for row in self.texts.validation if row.texts[0].strip()]
        said = _said(model, [text for text, _ in rows])
        return {"macro_f1": macro_f1([next(iter(one)) for one in said], [label for _, label in rows])} if said else {}


def labels_in(model: Transformer) -> tuple[str, ...]:
    """Of its head, in the order of the logits."""
    head = model.config.head
    assert isinstance(head, TextClassifier), "check_kind has looked"
    return head.labels


def _said(model: Transformer, texts: list[str]) -> list[dict[str, float]]:
    """What the model says to these texts; nothing if it cannot read one of them, such as a longer one."""
    try:
        return classify(model, texts)
    except ValueError as error:
        NOTES.warning("no labels are said: %s", error)
        return []
