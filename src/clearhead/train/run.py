"""A training run in a folder of its own: begun, logged, saved, stopped, gone on with, and scored at the end."""

import hashlib
import json
import logging
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TextIO

import torch
from safetensors import SafetensorError

from clearhead.families.load import load
from clearhead.families.store import read_json
from clearhead.model.transformer import Transformer
from clearhead.train.data import Parts, stream
from clearhead.train.folder import (
    ASKED,
    CHECKPOINT,
    LOG,
    REPORT,
    check_asked,
    check_use,
    cut_log,
    last_saved,
    locked,
    publish,
    put,
    read_log,
)
from clearhead.train.loop import History, Recipe, train
from clearhead.train.loss import Batch
from clearhead.train.optimizer import Rates
from clearhead.train.progress import Progress
from clearhead.train.save import Checkpoint, load_checkpoint, save_checkpoint
from clearhead.train.schedule import cosine
from clearhead.train.score import evaluate
from clearhead.train.task import Continuation, Task, Translation

NOTES = logging.getLogger(__name__)
EPOCHS, FEWEST, MOST = 20, 200, 5000  # by default so many, within so many steps


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is asked to do. lm: one file; translate: two, whose lines belong together."""

    kind: Literal["lm", "translate"]
    files: tuple[Path, ...]
    start: str | None = None  # the model to start from; None: a new one
    seed: int = 0
    steps: int | None = None  # None: 20 epochs, but 200 to 5,000 steps
    save_every: int = 100
    device: str = "cpu"

    def read(self) -> Task:
        """The texts. Raises ValueError for files that cannot be used."""
        return Continuation.read(*self.files) if self.kind == "lm" else Translation.read(*self.files)

    @property
    def rates(self) -> Rates:
        """A new model learns quickly; one that knows something already, gently."""
        return Rates(adamw=2e-3, muon=0.02, decay=0.1) if self.start is None else Rates(adamw=2e-4, decay=0.1)

    def recipe(self, parts: Parts) -> Recipe:
        """Up, then down half a cosine."""
        steps = self.steps or min(max(EPOCHS * parts.train.per_epoch, FEWEST), MOST)
        return Recipe(steps=steps, rates=self.rates, schedule=cosine(steps // 10, steps), save_every=self.save_every)

    def asked(self, task: Task) -> dict[str, Any]:
        """What must stay the same for a run to go on, and where it came from."""
        return {
            "kind": self.kind,
            "files": [str(file) for file in self.files],
            "data": "sha256 " + hashlib.sha256("\0".join(task.texts).encode()).hexdigest()[:16],
            "from": self.start,
            "seed": self.seed,
            "steps": self.steps,
        }


def run(plan: Plan, folder: Path, resume: bool = False) -> dict[str, Any] | None:
    """Train, save and score; the report, or None if a signal stopped it, after it was saved.

    Raises ValueError, before the first step, for texts, a model or a folder that cannot be used.
    """
    task = plan.read()
    with locked(folder):
        check_use(folder, resume)
        check_asked(folder, plan.asked(task))
        if (folder / REPORT).exists():
            NOTES.warning("%s is finished: nothing is left to do", folder)
            return read_json(folder / REPORT)
        place = last_saved(folder)
        start = None if place is None else load_checkpoint(place, plan.rates, plan.device)
        model = _begin(plan, task) if start is None else start.model
        parts = task.data(model)
        recipe = plan.recipe(parts)
        put(folder, ASKED, plan.asked(task))
        if start is None and resume:
            NOTES.warning("%s has no checkpoint: starting from the beginning", folder)
        if _trained(model, parts, plan, recipe, folder, start):
            return _report(task, parts, model, recipe, folder)
    NOTES.warning("stopped and saved in %s; the same line with --resume goes on", folder)
    return None


def _begin(plan: Plan, task: Task) -> Transformer:
    torch.manual_seed(plan.seed)
    if plan.start is not None:
        return load(plan.start, dtype=torch.float32, device=plan.device)
    return task.new().to(plan.device)


def _trained(
    model: Transformer, parts: Parts, plan: Plan, recipe: Recipe, folder: Path, start: Checkpoint | None
) -> bool:
    """Train up to the last step; False if it was stopped before."""
    done = 0 if start is None else start.step
    cut_log(folder, done)
    if done == recipe.steps:  # killed between the last step and the report
        return True
    batches = _moved(stream(parts.train, plan.seed, done), plan.device)

    def save(reached: Checkpoint) -> None:
        try:
            save_checkpoint(reached, folder / CHECKPOINT)
            publish(folder)
        except (OSError, SafetensorError) as error:
            raise ValueError(
                f"step {reached.step} could not be saved in {folder} ({error}); what was saved before is whole: make "
                "room, then go on with --resume"
            ) from error

    with (
        open(folder / LOG, "a", encoding="utf-8", buffering=1) as log,
        Progress(recipe.steps, "training", done) as progress,
        _signals() as stopping,
    ):
        seen = _Watch(log, stopping)
        train(model, batches, recipe, progress=progress, save=save, start=start, after=seen)
    return seen.step == recipe.steps


class _Watch:
    """Writes each step down, and says when to stop."""

    def __init__(self, log: TextIO, stopping: list[int]) -> None:
        self.log, self.stopping, self.step, self.tokens, self.begun = log, stopping, 0, 0, time.perf_counter()

    def __call__(self, reached: Checkpoint, history: History) -> bool:
        self.step = reached.step
        now = time.perf_counter()
        line = {
            "step": reached.step,
            "loss": history.losses[-1],
            "rate": reached.movers[0].param_groups[0]["lr"],
            "tokens": history.tokens - self.tokens,
            "seconds": round(now - self.begun, 6),
        }
        self.log.write(json.dumps(line) + "\n")
        self.tokens, self.begun = history.tokens, now
        return bool(self.stopping)


@contextmanager
def _signals() -> Generator[list[int]]:
    """Ctrl-C and SIGTERM are collected instead of ending the process; the second of a kind ends it."""
    found: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def heard(number: int, frame: FrameType | None) -> None:
        found.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, heard)
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _moved(batches: Iterator[Batch], device: str) -> Iterator[Batch]:
    return ({name: tensor.to(device) for name, tensor in batch.items()} for batch in batches)


def _report(task: Task, parts: Parts, model: Transformer, recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Score the model, let it say something, and write both down: with that the run is finished."""
    publish(folder)
    score, log = evaluate(model.eval(), parts.validation), read_log(folder)
    report = {
        "validation_loss": score.loss,
        "bits_per_byte": score.bits_per_byte(task.kept_bytes),
        "training_loss": log[-1]["loss"],
        "steps": recipe.steps,
        "epochs": recipe.steps / parts.train.per_epoch,
        "tokens": sum(line["tokens"] for line in log),
        "train_seconds": sum(line["seconds"] for line in log),
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        **task.sample(model),
    }
    put(folder, REPORT, report)
    return report
