"""The training loop, to be read from top to bottom."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, Tap
from clearhead.train.loss import IGNORED, Batch, smoothed_loss, teach
from clearhead.train.optimizer import Rates, clip, optimizers, set_rates
from clearhead.train.progress import Progress
from clearhead.train.save import Checkpoint
from clearhead.train.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train; what to train on is the stream of batches."""

    steps: int
    rates: Rates
    schedule: Schedule
    smoothing: float = 0.0  # of the labels
    tap: Tap = SILENT  # what listens to, or changes, each training step
    clip: float = 1.0  # largest norm of all gradients together
    accumulate: int = 1  # batches per step
    evaluate_every: int = 0  # steps; 0: never
    save_every: int = 0  # steps; 0: at the end only


@dataclass
class History:
    """What happened, by step."""

    losses: list[float] = field(default_factory=list[float])  # per target token
    scores: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])  # (step, evaluate's result)
    tokens: int = 0  # target tokens seen
    seconds: float = 0.0  # in steps, without evaluation


def train(
    model: Transformer,
    batches: Iterator[Batch],
    recipe: Recipe,
    evaluate: Callable[[Transformer], float] | None = None,
    progress: Progress | None = None,
    save: Callable[[Checkpoint], None] | None = None,
    start: Checkpoint | None = None,
    after: Callable[[Checkpoint, History], bool] | None = None,
) -> History:
    """Train the model in place up to step `recipe.steps`; it is left in eval mode.

    after: told of each step when it is done; True saves and ends the training there. The last step is always saved.
    start: a checkpoint whose model this is, to go on from; the batches must then begin where they were left.
    Loss is per target token over the whole step. Same seed, same machine, same number of threads: same result.
    Raises ValueError if a gradient is not finite, naming the step and the first parameter.
    """
    movers, done = (optimizers(model, recipe.rates), 0) if start is None else (start.movers, start.step)
    history = History()
    model.train()
    for step in range(done + 1, recipe.steps + 1):
        started = time.perf_counter()
        set_rates(movers, recipe.schedule(step))
        loss, count = backward(model, [next(batches) for _ in range(recipe.accumulate)], recipe.smoothing, recipe.tap)
        clip(model, recipe.clip, step)
        for mover in movers:
            mover.step()
            mover.zero_grad()
        history.losses.append(loss)
        history.tokens += count
        history.seconds += time.perf_counter() - started
        if evaluate is not None and recipe.evaluate_every and step % recipe.evaluate_every == 0:
            history.scores.append((step, evaluate(model.eval())))
            model.train()
        if progress is not None:
            progress.show(history.losses[-1], history.tokens / history.seconds)
        reached = Checkpoint(model, movers, step)
        stopped = after is not None and after(reached, history)
        due = recipe.save_every and step % recipe.save_every == 0
        if save is not None and (due or stopped or step == recipe.steps):
            save(reached)
        if stopped:
            break
    model.eval()
    return history


def backward(model: Transformer, batches: list[Batch], smoothing: float = 0.0, tap: Tap = SILENT) -> tuple[float, int]:
    """Gradients of the mean loss per target token over all the batches together; that loss, and the tokens."""
    lessons = [teach(model.config, batch) for batch in batches]
    count = sum(int((targets != IGNORED).sum()) for _, targets in lessons)
    total = 0.0
    for fed, targets in lessons:
        logits = model(**fed, tap=tap).logits
        loss = smoothed_loss(logits, targets, smoothing, model.config.pad) / count
        loss.backward()
        total += float(loss.detach())
    return total, count
