"""A model's scores on files that it was not trained on."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from clearhead.model.transformer import Transformer
from clearhead.train.data.files import Part, Texts, counted, open_rows
from clearhead.train.recipe import Batches, Recipe, Source
from clearhead.train.score import BEAMS, evaluate, translation_scores
from clearhead.train.start import check_kind, task_for
from clearhead.train.task import TASKS


def exam(
    model: Transformer, source: Source, beams: int = BEAMS, sentences: int | None = None, block: int | None = None
) -> dict[str, Any]:
    """Loss, perplexity, bits per byte and accuracy on all of source.train; of a translator BLEU and chrF too, of a
    classifier the mean F1 of the labels.

    sentences: how many are translated, None = all. block: tokens of a row, within which a text looks back, None = as
    many as the model has positions for, or 256 where they have no end. The model must be in eval mode. Raises
    ValueError for files or a model that cannot be used.
    """
    task = task_for(model)
    check_kind(model, task)
    if task == "classify":
        source = replace(source, label=source.label or "label")
    rows = open_rows(source.train, source, task == "translate", source.split)
    count, characters = counted(rows, ", ".join(source.train))
    texts = Texts(Part(rows), Part(rows), count, characters)
    recipe = Recipe(task=task, data=source, batch=Batches(block=block or _room(model), tokens=4096))
    with tempfile.TemporaryDirectory() as folder:
        asked = TASKS[task](recipe, texts)
        data, size = asked.kept(model, Path(folder))
        score = evaluate(model, data)
    found = {
        "task": task,
        "tokens": score.tokens,
        "loss": score.loss,
        "perplexity": score.perplexity,
        "bits_per_byte": None if size is None else score.bits_per_byte(size),
        "accuracy": score.accuracy,
    }
    spoken = {name: code for name in ("src_lang", "tgt_lang") if (code := getattr(source, name)) is not None}
    if task == "classify":
        return {"texts" if name == "tokens" else name: n for name, n in found.items()} | asked.scores(model)
    return found | (translation_scores(model, rows, sentences, beams, spoken) if task == "translate" else {})


def _room(model: Transformer) -> int:
    table = model.last.form.positions
    return 256 if table is None or table.count is None else min(table.count - (model.encoder is None), 1024)
