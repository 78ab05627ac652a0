"""A training run in a folder of its own: begun, logged, saved, stopped, gone on with, and scored at the end."""

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from clearhead.families.store import read_json
from clearhead.model.transformer import Transformer
from clearhead.train.data.batches import Parts, stream
from clearhead.train.data.files import Texts
from clearhead.train.data.streamed import go_on, mark_of
from clearhead.train.folder import (
    ASKED,
    CHECKPOINT,
    REPORT,
    check_asked,
    check_use,
    last_saved,
    locked,
    publish,
    put,
    read_log,
)
from clearhead.train.keep import check_space, given, keep, keep_best
from clearhead.train.loop import TrainingArguments, train
from clearhead.train.loss import moved
from clearhead.train.optimizer import Rates, optimizers
from clearhead.train.page import machine, page
from clearhead.train.progress import Progress
from clearhead.train.recipe import FILE, Recipe, fixed, write_recipe
from clearhead.train.save import Checkpoint, load_checkpoint, save_checkpoint
from clearhead.train.schedule import Schedule, cosine, inverse_sqrt, wsd
from clearhead.train.score import evaluate
from clearhead.train.spread import Spread, spread
from clearhead.train.start import base_of, begin, drop
from clearhead.train.task import Task, task_of
from clearhead.train.watch import SAMPLES, Watch, check_texts

NOTES = logging.getLogger(__name__)
EPOCHS, FEWEST, MOST = 20, 200, 5000  # by default so many, within so many steps
PAGE = "report.html"
WHOLE = "what was saved before is whole: make room, then go on with --resume"
IDS = ".data"  # of the run's folder: the texts as ids


def rates(recipe: Recipe) -> Rates:
    """A new model learns quickly; one that knows something already, gently."""
    asked, known = recipe.optimizer, recipe.model.start is not None
    adamw, muon = (5e-5 if recipe.task == "classify" else 2e-4, 0.0) if known else (2e-3, 0.02)
    return Rates(
        adamw=adamw if asked.adamw is None else asked.adamw,
        muon=(muon if asked.muon is None else asked.muon) or None,
        decay=asked.decay,
        betas=(asked.beta1, asked.beta2),
        frozen=recipe.model.freeze,
    )


def training_arguments(recipe: Recipe, parts: Parts) -> TrainingArguments:
    """What the loop is to do, with what the recipe leaves open."""
    accumulate = recipe.batch.accumulate
    steps = recipe.steps
    if steps is None:
        assert parts.train.per_epoch is not None, "the recipe has looked"
        steps = min(max(EPOCHS * parts.train.per_epoch // accumulate, FEWEST), MOST)
    return TrainingArguments(
        steps=steps,
        rates=rates(recipe),
        schedule=schedule(recipe, steps),
        smoothing=recipe.smoothing,
        clip=recipe.optimizer.clip,
        accumulate=accumulate,
        evaluate_every=recipe.watch.evaluate_every,
        patience=recipe.watch.patience,
        save_every=recipe.save.every,
        dtype=recipe.dtype,
        compiled=recipe.compile,
        ema=recipe.save.ema,
        again=recipe.checkpoint_activations,
    )


def schedule(recipe: Recipe, steps: int) -> Schedule:
    """The share of the peak rate at each step."""
    asked = recipe.schedule
    warmup = steps // 10 if asked.warmup is None else asked.warmup
    if asked.kind == "inverse_sqrt":
        return inverse_sqrt(warmup)
    if asked.kind == "wsd":
        return wsd(warmup, steps, steps // 5 if asked.decay is None else asked.decay, asked.floor)
    return cosine(warmup, steps, asked.floor)


def run(recipe: Recipe, folder: Path, resume: bool = False, texts: Texts | None = None) -> dict[str, Any] | None:
    """Train, save and score; the report, or None if a signal stopped it, after it was saved.

    texts: those of the recipe, if they have been read already.
    Raises ValueError, before the first step, for texts, a model or a folder that cannot be used; of several processes
    one says so, and the others OtherProcessError.
    """
    with ExitStack() as stack:
        here = stack.enter_context(spread(recipe.spread, recipe.device))
        task = here.alike(lambda: task_of(recipe, texts))
        asked = {**fixed(recipe), "data": f"sha256 {task.texts.digest}", **here.once(lambda: base_of(recipe))}
        here.once(lambda: _take(folder, asked, resume, stack))
        if here.agreed((folder / REPORT).exists()):
            NOTES.warning("%s is finished: nothing is left to do", folder)
            return read_json(folder / REPORT)
        return _run(task, asked, folder, resume, here)


def _take(folder: Path, asked: dict[str, Any], resume: bool, stack: ExitStack) -> None:
    """The folder is ours as long as the stack lasts."""
    stack.enter_context(locked(folder))
    check_use(folder, resume)
    check_asked(folder, asked)


def _run(task: Task, asked: dict[str, Any], folder: Path, resume: bool, here: Spread) -> dict[str, Any] | None:
    recipe = task.recipe
    place = here.agreed(last_saved(folder) if here.first else None)
    new = begin(recipe, task.texts, here) if place is None or recipe.model.lora.rank else None
    start = None if place is None else load_checkpoint(place, rates(recipe), here, new)
    model = new if start is None else start.model
    assert model is not None
    parts = here.ahead(lambda: task.data(model, Path(recipe.data.cache or folder / IDS)))
    if recipe.model.dropout is not None:
        drop(model, recipe.model.dropout)
    args = training_arguments(recipe, parts)
    if here.first:
        write_recipe(recipe, folder / f".{FILE}.new")
        os.replace(folder / f".{FILE}.new", folder / FILE)
        put(folder, ASKED, asked)
        if start is None and resume:
            NOTES.warning("%s has no checkpoint: starting from the beginning", folder)
    begun = start is not None
    if start is not None and here.first:
        keep(folder, start.step, recipe.save.keep)
    movers, saving = optimizers(model, args.rates), recipe.save
    check_space(folder, model, movers, saving, begun)
    if _trained(model, parts, task, args, folder, start, here):
        return _report(task, parts, model, args, folder, here)
    NOTES.warning("stopped and saved in %s; the same line with --resume goes on", folder)
    return None


def _trained(
    model: Transformer,
    parts: Parts,
    task: Task,
    args: TrainingArguments,
    folder: Path,
    start: Checkpoint | None,
    here: Spread,
) -> bool:
    """Train up to the last step; False if it was stopped before."""
    done = 0 if start is None else start.step
    go_on(parts.train, None if start is None else start.mark)
    batches = stream(parts.train, task.recipe.seed, done * args.accumulate, here.rank, here.ranks)

    def save(reached: Checkpoint) -> None:
        try:
            save_checkpoint(reached._replace(mark=mark_of(parts.train)), folder / CHECKPOINT, here)
            if here.first:
                publish(folder)
                keep(folder, reached.step, task.recipe.save.keep)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"step {reached.step} could not be saved in {folder} ({error}); {WHOLE}") from error

    def best(model: Transformer) -> None:
        if here.first and task.recipe.save.keep_best:
            keep_best(folder, model)

    check_texts(model, task.recipe.watch)
    quiet = args.steps // 10
    watching = Watch(folder, task.recipe.watch, parts.validation, task.samples, here, done, quiet)
    if done == args.steps:  # killed between the last step and the report
        return True
    with watching as watch, Progress(args.steps, "training", done, here.first) as progress:
        batches = (moved(batch, here.device) for batch in batches)
        try:
            train(model, batches, args, watch.score, progress, save, start, watch, best, here)
        except OSError as error:
            raise ValueError(f"{folder} cannot be written to ({error}); {WHOLE}") from error
    return not watch.stopped


def _report(
    task: Task, parts: Parts, model: Transformer, args: TrainingArguments, folder: Path, here: Spread
) -> dict[str, Any]:
    """Score the model, let it say something, and write both down: with that the run is finished."""
    model = here.whole(model.eval())
    if here.first:
        name, model = given(folder, model, task.recipe.save, lambda one: evaluate(one, parts.validation).loss)
        log = read_log(folder)
        report = {**_scored(task, parts, model, args, log), "given": name}
        told = page(folder.name, report, log, read_log(folder, SAMPLES), (folder / FILE).read_text(), machine(here))
        (folder / PAGE).write_text(told, encoding="utf-8")
        put(folder, REPORT, report)
    here.agreed(True)  # others wait until it is there
    return read_json(folder / REPORT)


def _scored(
    task: Task, parts: Parts, model: Transformer, args: TrainingArguments, log: list[dict[str, Any]]
) -> dict[str, Any]:
    score, steps = evaluate(model, parts.validation), log[-1]["step"]
    per_epoch = parts.train.per_epoch
    return {
        "validation_loss": score.loss,
        "perplexity": score.perplexity,
        "bits_per_byte": None if parts.kept_bytes is None else score.bits_per_byte(parts.kept_bytes),
        "accuracy": score.accuracy,
        **task.scores(model),
        "training_loss": log[-1]["loss"],
        "steps": steps,
        "epochs": None if per_epoch is None else steps * args.accumulate / per_epoch,
        "tokens": sum(line["tokens"] for line in log),
        "train_seconds": sum(line["seconds"] for line in log),
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "samples": task.samples(model),
    }
