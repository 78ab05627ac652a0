"""The main job: train, score, save."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from clearhead.demo.numbers import Split, draws
from clearhead.demo.score import Match, alignment, exact_match
from clearhead.demo.task import Task
from clearhead.families.load import write
from clearhead.families.store import new_folder, write_json
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.train.drop_heads import DropHeads
from clearhead.train.loop import History, TrainingArguments, train
from clearhead.train.loss import moved
from clearhead.train.optimizer import Rates
from clearhead.train.progress import Progress
from clearhead.train.schedule import cosine
from clearhead.train.spread import check_device

STEPS = {("pieces", "de"): 400, ("pieces", "fr"): 600, ("letters", "de"): 850, ("letters", "fr"): 850}
DROPPED = {"decoder.*.cross": 0.5, "encoder.*.self": 0.3}  # share of heads left out in training
TESTED = 2000  # numbers per test set


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run of the demo is asked to do."""

    task: Task
    positions: Literal["sinusoidal", "none"] = "sinusoidal"
    seed: int = 0
    steps: int | None = None  # None: as many as the units need
    device: str = "cpu"

    @property
    def args(self) -> TrainingArguments:
        """Muon with strong weight decay learns quickest. Heads left out at random must each find the right word alone
        (across), and leave each word's meaning where the word stands (in the encoder).
        """
        steps = STEPS[self.task.units, self.task.to] if self.steps is None else self.steps
        rates = Rates(adamw=2e-3, muon=0.02, decay=0.3)
        return TrainingArguments(steps=steps, rates=rates, schedule=cosine(steps // 10, steps), tap=DropHeads(DROPPED))


@dataclass
class Result:
    """What came of it."""

    plan: Plan
    model: Transformer
    history: History
    matches: dict[Split, Match]
    heads: list[Match]  # alignment of each cross-attention head, layer by layer
    best: int  # the head chosen on validation numbers

    @property
    def report(self) -> dict[str, Any]:
        """What report.json holds; shares between 0 and 1."""
        sevens, thousands = self.matches["sevens"], self.matches["thousands"]
        found = {
            "exact_match": self.matches["hashed"].share,
            "exact_match_sevens": sevens.share,
            "exact_match_thousands": thousands.share,
            "exact_match_recombined": (sevens + thousands).share,
            "intervals": {name: match.interval for name, match in self.matches.items()},
            "train_seconds": self.history.seconds,
            "tokens_per_second": self.history.tokens / self.history.seconds,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "final_loss": self.history.losses[-1],
            "steps": len(self.history.losses),
            "seed": self.plan.seed,
            "task": asdict(self.plan.task),
            "positions": self.plan.positions,
            "device": self.plan.device,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        if self.heads:
            found |= {
                "alignment_accuracy": self.heads[self.best].share,
                "alignment_head": self.best,
                "alignment_by_head": [head.share for head in self.heads],
            }
        return found


def run(plan: Plan, folder: str | Path, progress: bool = True) -> Result:
    """Train, score and save into `folder`, which is replaced only once everything is there.

    Raises ValueError for no step, and for a device that is not there.
    """
    if plan.args.steps < 1:
        raise ValueError(f"steps is {plan.args.steps}; train for at least 1")
    check_device(plan.device)
    torch.manual_seed(plan.seed)
    model = Transformer(plan.task.config(plan.positions)).to(plan.device)
    model.tokenizer = plan.task.tokenizer
    batches = (moved(batch, plan.device) for batch in plan.task.stream(plan.seed))
    with new_folder(folder) as fresh:
        if progress:
            with Progress(plan.args.steps, "training") as bar:
                history = train(model, batches, plan.args, progress=bar)
        else:
            history = train(model, batches, plan.args)
        result = score(plan, model, history)
        write(model, fresh)
        write_json(fresh / "report.json", result.report)
    return result


def score(plan: Plan, model: Transformer, history: History) -> Result:
    """Exact match on each test set; the alignment head is chosen on validation numbers and scored on others."""
    task = plan.task
    sets: tuple[Split, ...] = ("hashed", "sevens", "thousands")
    if plan.positions == "none":
        sets = (*sets, "train")  # there the ceiling can be read off: no unseen sibling takes the answer's place
    matches: dict[Split, Match] = {name: exact_match(model, task, draws(name, TESTED)) for name in sets}
    if not isinstance(task.tokenizer, Pair):
        return Result(plan, model, history, matches, [], 0)
    choice = alignment(model, task, draws("validation", 400))
    best = max(range(len(choice)), key=lambda head: choice[head].share)
    return Result(plan, model, history, matches, alignment(model, task, draws("hashed", 500, seed=1)), best)
