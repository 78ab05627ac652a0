"""What is written while a run trains: a line for each step, curves for TensorBoard, samples, and where heads look."""

import json
import logging
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TextIO

from clearhead.families.store import new_folder, write_json, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.train import film
from clearhead.train.alarms import alarms
from clearhead.train.data.batches import Data
from clearhead.train.folder import LOG, cut_log
from clearhead.train.loop import History, aside
from clearhead.train.recipe import Watching
from clearhead.train.save import Checkpoint
from clearhead.train.score import evaluate
from clearhead.train.snapshot import SNAPSHOTS, snapshot
from clearhead.train.spread import Spread

NOTES = logging.getLogger(__name__)
SAMPLES, BOARD = "samples.jsonl", "tensorboard"
Samples = Callable[[Transformer], list[dict[str, str]]]


class Watch:
    """`with Watch(...) as watch:` writes into the run's folder, and says when a signal asked for the end.

    `watch` goes to the loop as `after`, `watch.score` as `evaluate`. Only the first of several processes writes.
    """

    def __init__(
        self, folder: Path, asked: Watching, validation: Data, samples: Samples, here: Spread, done: int, quiet: int
    ):
        """done: steps of an earlier process. quiet: steps at the beginning, when every model is suspicious.

        Raises ValueError where TensorBoard is asked for and not installed.
        """
        self.folder, self.asked, self.validation, self.samples, self.here = folder, asked, validation, samples, here
        self.quiet = quiet
        self.tokens, self.begun, self.stopped, self.said = 0, time.perf_counter(), False, list[str]()
        self._board = _board(folder, done) if asked.tensorboard and here.first else None
        if here.first:
            for name in (LOG, SAMPLES):
                cut_log(folder, done, name)

    def __enter__(self) -> "Watch":
        self._log, self._samples = (self._open(name) for name in (LOG, SAMPLES))
        self._signals = _signals(again=self.here.ranks > 1)
        self._stopping = self._signals.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signals.__exit__(kind, error, trace)
        for file in (self._log, self._samples, *([self._board] if self._board else [])):
            file.close()
        if kind is None and self.here.first and (self.folder / SNAPSHOTS).exists():
            self._film()

    def _film(self) -> None:
        try:
            film.write(self.folder)
        except (ValueError, OSError) as error:  # the model is worth more than its film
            NOTES.warning("no %s: %s", film.FILE, error)

    def _open(self, name: str) -> TextIO:
        return open(self.folder / name if self.here.first else os.devnull, "a", encoding="utf-8", buffering=1)

    def score(self, model: Transformer) -> float:
        """The validation loss; what is suspicious about the model is said with the step."""
        batch = next(iter(self.validation.whole()))
        self.said = alarms(model, {name: tensor.to(self.here.device) for name, tensor in batch.items()})
        return evaluate(model, self.validation).loss

    def __call__(self, reached: Checkpoint, history: History) -> bool:
        """Write the step down, and look at the model if that is due."""
        line = self._line(reached, history)
        self._log.write(json.dumps(line, ensure_ascii=False) + "\n")
        for said in line.get("alarms", ()) if self.here.first else ():
            NOTES.warning("step %d: %s", reached.step, said)
        if self._board is not None:
            for name in line.keys() & {"loss", "rate", "norm", "validation_loss"}:
                self._board.add_scalar(name, line[name], reached.step)
        self._look(reached)
        self.stopped = bool(self.here.total(bool(self._stopping))[0])
        return self.stopped

    def _line(self, reached: Checkpoint, history: History) -> dict[str, Any]:
        now = time.perf_counter()
        line: dict[str, Any] = {
            "step": reached.step,
            "loss": history.losses[-1],
            "rate": reached.movers[0].param_groups[0]["lr"],
            "norm": history.norm,
            "tokens": history.tokens - self.tokens,
            "seconds": round(now - self.begun, 6),
        }
        if history.scores and history.scores[-1][0] == reached.step:
            line["validation_loss"] = history.scores[-1][1]
            if self.said and reached.step > self.quiet:
                line["alarms"] = self.said
        self.tokens, self.begun = history.tokens, now
        return line

    def _look(self, reached: Checkpoint) -> None:
        step, asked = reached.step, self.asked
        due = bool(asked.sample_every) and step % asked.sample_every == 0
        if not due and step not in asked.probe_steps:
            return
        with aside(reached.model, self.here, reached.mean) as model:
            for sample in self.samples(model) if due and self.here.first else ():
                self._samples.write(json.dumps({"step": step, **sample}, ensure_ascii=False) + "\n")
            if step in asked.probe_steps and asked.probes and self.here.first:
                tensors, texts = snapshot(model, asked.probes)
                with new_folder(self.folder / SNAPSHOTS / f"{step:08}") as fresh:
                    write_tensors(fresh / "heads.safetensors", tensors)
                    write_json(fresh / "texts.json", {"step": step, "texts": texts})


def check_texts(model: Transformer, asked: Watching) -> None:
    """ValueError for a prompt or a probe that the model's tokenizer cannot read."""
    assert model.tokenizer is not None, "the task has looked"
    for name, texts in (("prompts", asked.prompts), ("probes", asked.probes)):
        for text in texts:
            try:
                ids = model.tokenizer.encode(text)
            except ValueError as error:
                raise ValueError(f"watch.{name}, {text!r}: {error}") from error
            if not ids:
                raise ValueError(f"watch.{name} holds {text!r}, which has no token; give some words")


def _board(folder: Path, done: int) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError as error:
        raise ValueError(
            "watch.tensorboard is true, but tensorboard is not installed; pip install clearhead[train], or leave it out"
        ) from error
    return SummaryWriter(str(folder / BOARD), purge_step=done + 1)


@contextmanager
def _signals(again: bool) -> Generator[list[int]]:
    """Ctrl-C and SIGTERM are collected instead of ending the process; the second of a kind ends it, unless `again`.

    Under torchrun each process hears both from the terminal and from torchrun.
    """
    found: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def heard(number: int, frame: FrameType | None) -> None:
        found.append(number)
        if not again:
            signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, heard)
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
