"""The training loop, to be read from top to bottom."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from clearhead.config import Head
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, Tap
from clearhead.train.alarms import first_bad
from clearhead.train.compute import Answers, Dtype, computing, layers_as, layers_as_written
from clearhead.train.ema import Mean, averaged, follow, mean_of
from clearhead.train.loss import IGNORED, Batch, smoothed_loss, teach
from clearhead.train.optimizer import Rates, clip, freeze, optimizers, set_rates
from clearhead.train.progress import Progress
from clearhead.train.save import Checkpoint
from clearhead.train.schedule import Schedule
from clearhead.train.spread import ALONE, Spread


@dataclass(frozen=True, kw_only=True)
class TrainingArguments:
    """How to train; what to train on is the stream of batches."""

    steps: int
    rates: Rates
    schedule: Schedule
    smoothing: float = 0.0  # of the labels
    tap: Tap = SILENT  # what listens to, or changes, each training step
    clip: float = 1.0  # largest norm of all gradients together
    accumulate: int = 1  # batches per step
    evaluate_every: int = 0  # steps; 0: never
    patience: int = 0  # stop after so many scores in a row that are not the best; 0: never
    save_every: int = 0  # steps; 0: at the end only
    dtype: Dtype = "float32"  # of the products in a step; weights stay as they are
    compiled: bool = False  # each layer
    ema: float = 0.0  # see ema.py; the mean is what is evaluated and saved as the model; 0: the weights themselves
    again: bool = False  # compute each layer again on the way back, instead of keeping what it needs


@dataclass
class History:
    """What happened, by step."""

    losses: list[float] = field(default_factory=list[float])  # per target token
    scores: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])  # (step, evaluate's result)
    tokens: int = 0  # target tokens seen
    seconds: float = 0.0  # in steps, without evaluation
    norm: float = 0.0  # of the last step's gradients, before clipping

    def is_best(self) -> bool:
        """Whether the last score is lower than all before."""
        *before, (_, last) = self.scores
        return all(last < score for _, score in before)

    def tired(self, patience: int) -> bool:
        """Whether the best score is so many scores ago."""
        scores = [score for _, score in self.scores]
        return bool(patience and scores) and len(scores) - 1 - scores.index(min(scores)) >= patience


def train(
    model: Transformer,
    batches: Iterator[Batch],
    args: TrainingArguments,
    evaluate: Callable[[Transformer], float] | None = None,
    progress: Progress | None = None,
    save: Callable[[Checkpoint], None] | None = None,
    start: Checkpoint | None = None,
    after: Callable[[Checkpoint, History], bool] | None = None,
    best: Callable[[Transformer], None] | None = None,
    here: Spread = ALONE,
) -> History:
    """Train the model in place up to step `args.steps`, or until patience ends; it is left in eval mode.

    after: told of each step when it is done; True saves and ends the training there. The last step is always saved.
    evaluate: given the model in eval mode, with complete weights; a lower score is better.
    start: a checkpoint whose model this is, to go on from; the batches must then begin where they were left.
    best: given the model whenever its score is lower than all before.
    here: this process among several; each gives its own share of every batch, and all of them end at the same step.
    Loss is per target token over the whole step. Same seed, same machine, same number of threads: same result.
    Raises ValueError if a gradient is not finite, naming the step, the first parameter and the first bad place before.
    """
    if start is None:
        freeze(model, args.rates.frozen)
        here.shard(model)
        start = Checkpoint(model, optimizers(model, args.rates), 0, mean=mean_of(model) if args.ema else None)
        if here.rank:  # dropout is drawn for each process anew, where the model was drawn alike for all
            torch.manual_seed(torch.initial_seed() + here.rank)
    history, movers, mean = History(scores=[*start.scores]), start.movers, start.mean
    called = here.wrapped(model.train())
    with layers_as(model, args.compiled, args.again):
        for step in range(start.step + 1, args.steps + 1):
            if history.tired(args.patience):
                break
            started = time.perf_counter()
            set_rates(movers, args.schedule(step))
            own = [next(batches) for _ in range(args.accumulate)]
            loss, count = backward(model, own, args.smoothing, args.tap, args.dtype, called, here)
            history.norm = _clipped(model, own, args, step)
            for mover in movers:
                mover.step()
                mover.zero_grad()
            if mean is not None:
                follow(mean, model, args.ema)
            history.losses.append(loss)
            history.tokens += count
            history.seconds += time.perf_counter() - started
            if evaluate is not None and args.evaluate_every and step % args.evaluate_every == 0:
                with aside(model, here, mean) as complete:
                    history.scores.append((step, here.agreed(evaluate(complete))))
                    if best is not None and history.is_best():
                        best(complete)
            if progress is not None:
                progress.show(loss, history.tokens / history.seconds)
            reached = Checkpoint(model, movers, step, tuple(history.scores), mean=mean)
            (stopped,) = here.total(after is not None and after(reached, history))
            last = bool(stopped) or step == args.steps or history.tired(args.patience)
            if save is not None and (last or (args.save_every and step % args.save_every == 0)):
                save(reached)
            if stopped:
                break
    model.eval()
    return history


def backward(
    model: Transformer,
    batches: list[Batch],
    smoothing: float = 0.0,
    tap: Tap = SILENT,
    dtype: Dtype = "float32",
    called: nn.Module | None = None,
    here: Spread = ALONE,
) -> tuple[float, int]:
    """Gradients of the mean loss per target token over the batches of all processes; that loss, and the tokens."""
    called = model if called is None else called
    lessons = [teach(model.config, batch) for batch in batches]
    (count,) = here.total(sum(int((targets != IGNORED).sum()) for _, targets in lessons))
    costs: list[Tensor] = []
    for i, (fed, targets) in enumerate(lessons):
        asked, inner = (targets.flatten() != IGNORED).nonzero().squeeze(-1), model.tap if tap is SILENT else tap
        tokens = isinstance(model.config.head, Head)
        everywhere = len(asked) == targets.numel() or not tokens
        answers = inner if everywhere else Answers(asked, inner, "encoder" if model.decoder is None else "decoder")
        with here.last(called, i == len(lessons) - 1):
            with computing(dtype, targets.device.type):
                logits = called(**fed, tap=answers).logits
            wanted = targets if everywhere else targets.flatten().index_select(0, asked)
            pad = model.config.pad if tokens else None
            loss = smoothed_loss(logits, wanted, smoothing, pad) * (here.ranks / max(count, 1))
            loss.backward()  # processes take the mean of their gradients, so that these are summed
        costs.append(loss.detach())
    (mean,) = here.total(float(torch.stack(costs).sum()) / here.ranks)
    return mean, int(count)


def _clipped(model: Transformer, batches: list[Batch], args: TrainingArguments, step: int) -> float:
    try:
        return clip(model, args.clip, step)
    except ValueError as error:
        place = first_bad(model, batches, args.dtype)
        found = "the forward pass is finite" if place is None else f"in the forward pass first at {place}"
        raise ValueError(f"{error}; {found}") from error


@contextmanager
def aside(model: Transformer, here: Spread = ALONE, mean: Mean | None = None) -> Generator[Transformer]:
    """The complete model, with a mean the averaged one, in eval mode.

    It is for a look that leaves no trace: random numbers go on as if nobody had.
    """
    devices = [here.device] if here.device.startswith("cuda") else []
    with torch.random.fork_rng(devices), torch.no_grad(), layers_as_written(model):
        yield here.whole(averaged(model.eval(), mean))
    model.train()
