"""A look at data before they are trained on: what they hold, what is wrong with them, what a run would take."""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clearhead.families.load import load
from clearhead.model.describe import count
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.batches import Blocks, Data, Pairs, Parts, stream
from clearhead.train.data.files import Texts, texts_of
from clearhead.train.data.ids import Ids
from clearhead.train.data.masked import Corrupted
from clearhead.train.data.packed import Packed
from clearhead.train.data.rows import TABLES, kind
from clearhead.train.examine import Finding, examine_bytes, examine_rows, told
from clearhead.train.labels import counted_labels
from clearhead.train.loop import train
from clearhead.train.loss import IGNORED, Batch, moved
from clearhead.train.progress import memory
from clearhead.train.recipe import Recipe
from clearhead.train.run import training_arguments
from clearhead.train.spread import Spread
from clearhead.train.start import begin, task_for
from clearhead.train.task import TASKS
from clearhead.train.task_labels import Labelled

TRIED = 3  # steps, of which the first is not timed
UNKNOWN = 0.01  # share of unknown tokens, from which on the tokenizer does not fit


@dataclass
class Diagnosis:
    """What was found: numbers by name, and findings in words."""

    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def faults(self) -> int:
        """What should be mended first."""
        return sum(finding.level == "fault" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"clean": not self.faults, **asdict(self), "findings": [one._asdict() for one in self.findings]}


def doctor(recipe: Recipe, try_steps: bool = True) -> Diagnosis:
    """Look at a recipe's data as its run would see them, and let it take a few steps for their time and memory.

    Nothing is kept. What keeps a run from starting is a fault like others, not an error.
    """
    found = Diagnosis()
    found.findings += examine_bytes((*recipe.data.train, *recipe.data.validation))
    if not found.faults:
        try:
            _look(recipe, try_steps, found)
        except ValueError as error:
            found.findings.append(Finding("fault", str(error)))
    found.findings.sort(key=lambda one: one.level)
    return found


def task_of_data(names: Sequence[str], start: str | None) -> Literal["lm", "translate", "mlm", "classify"]:
    """What the data are for, if nobody says: what the model does; or two files of text are a source and a target."""
    if start is not None:
        return task_for(load(start))
    tables = [kind(Path(name)) in TABLES for name in names]
    return "translate" if len(names) == 2 and not any(tables) else "lm"


def _look(recipe: Recipe, try_steps: bool, found: Diagnosis) -> None:
    texts = texts_of(recipe)
    counts = examine_rows(texts, recipe.task == "translate")
    running = texts.train.rows.running
    found.facts |= {"task": recipe.task, **counts.facts(running, recipe.task == "translate")}
    found.findings += told(counts, running)
    if recipe.task == "classify":
        found.findings += _of_labels(texts)
    model = begin(recipe, texts, Spread(device=recipe.device))
    limit = _positions(model) if recipe.data.longest is None and recipe.task == "translate" else None
    cut = recipe if limit is None else replace(recipe, data=replace(recipe.data, longest=limit))  # to count them all
    with tempfile.TemporaryDirectory() as folder:
        parts = TASKS[recipe.task](cut, texts).data(model, Path(folder))
        sizes = _sizes(parts, model, running)
        found.facts |= sizes
        found.findings += _of_ids(sizes, parts, model, recipe, counts.rows + counts.kept)
        if try_steps:
            found.facts |= _tried(model, parts, recipe)


def _of_labels(texts: Texts) -> Iterator[Finding]:
    """How often each is there, and which of them the validation lacks: files are often sorted by label."""
    train, kept = counted_labels(texts.train), counted_labels(texts.validation)
    yield Finding("note", "labels: " + ", ".join(f"{label} {count:,}" for label, count in train.most_common(20)))
    if missing := sorted(label for label, count in train.items() if count > train.total() / 50 and label not in kept):
        yield Finding(
            "fault", f"no row kept for validation has the label {missing[0]}; shuffle the rows, or name data.validation"
        )


def _positions(model: Transformer) -> int | None:
    """Of the stack that has the fewest; None where they have no end."""
    tables = [stack.positions for stack in model.config.stacks.values()]
    return min((table.count for table in tables if table is not None and table.count is not None), default=None)


def _columns(data: Data) -> dict[str, Ids]:
    """The ids of texts that are at hand."""
    if isinstance(data, Labelled):
        return {"text": data.sources}
    if isinstance(data, Pairs):
        return {"source": data.sources, "target": data.targets}
    data = data.inner if isinstance(data, Corrupted) else data
    return {"text": data.ids} if isinstance(data, Blocks | Packed) else {}


def _sides(tokenizer: Tokenizer | Pair) -> dict[str, Tokenizer]:
    if isinstance(tokenizer, Pair):
        return {"source": tokenizer.source, "target": tokenizer.target}
    return dict.fromkeys(("text", "source", "target"), tokenizer)


def _sizes(parts: Parts, model: Transformer, running: bool) -> dict[str, Any]:
    """Tokens by side: all, in the middle, the most; the largest id against the vocabulary; what is unknown; a block."""
    found: dict[str, Any] = {"parameters": count(model)}
    stacks = {"source": model.config.encoder, "target": model.config.decoder, "text": model.last.form}
    tokenizer = model.tokenizer
    assert tokenizer is not None, "begin has looked"
    for name, ids in _columns(parts.train).items():
        stack, unk = stacks[name], _sides(tokenizer)[name].unk
        assert stack is not None, "begin has looked"
        found[name] = {
            "tokens": ids.total,
            **({} if running else {"per_row": float(np.median(ids.lengths)), "longest": int(ids.lengths.max())}),
            "largest_id": ids.largest,
            "vocabulary": stack.vocab,
            "unknown": 0.0 if unk is None else ids.count(unk) / max(ids.total, 1),
        }
    inner = parts.train.inner if isinstance(parts.train, Corrupted) else parts.train
    return found | ({"block": inner.length} if isinstance(inner, Blocks | Packed) else {})


def _of_ids(sizes: dict[str, Any], parts: Parts, model: Transformer, recipe: Recipe, rows: int) -> Iterator[Finding]:
    """What the ids say against the model."""
    for name, facts in sizes.items():
        if isinstance(facts, dict) and facts["unknown"]:
            level = "fault" if facts["unknown"] > UNKNOWN else "note"
            yield Finding(level, f"{facts['unknown']:.2%} of the {name}'s tokens are unknown to the tokenizer")
    if recipe.task == "translate":
        left = rows - sum(len(next(iter(_columns(data).values()), ())) for data in (parts.train, parts.validation))
        limit = recipe.data.longest or _positions(model)
        if left and not recipe.data.stream:
            mend = "" if recipe.data.longest else f"; shorten them, or leave them out with data.longest: {limit}"
            level = "note" if recipe.data.longest else "fault"
            yield Finding(level, f"{left:,} of {rows:,} pairs have more than {limit} tokens on a side{mend}")
    if isinstance(parts.train, Pairs):
        alone = int((parts.train.lengths > parts.train.tokens).sum())
        if alone:
            yield Finding(
                "note", f"pairs longer than batch.tokens {parts.train.tokens}, each a batch of its own: {alone:,}"
            )
    if isinstance(parts.train, Packed):
        cut = int((parts.train.ids.lengths > parts.train.length).sum())
        if cut:
            yield Finding(
                "note", f"documents longer than a block of {parts.train.length} tokens, which are cut: {cut:,}"
            )


def _tried(model: Transformer, parts: Parts, recipe: Recipe) -> dict[str, Any]:
    """What a run would take, from a few real steps."""
    args, times = training_arguments(recipe, parts), [time.perf_counter()]
    batches = [batch for batch, _ in zip(stream(parts.train, recipe.seed), range(TRIED), strict=False)]
    given = (moved(batch, recipe.device) for batch in batches * args.accumulate)

    def after(*reached: Any) -> bool:
        times.append(time.perf_counter())
        return False

    train(model, given, replace(args, steps=TRIED, evaluate_every=0), after=after)
    step = statistics.median(np.diff(times)[1:])
    pairs = recipe.task == "translate"
    real, all_of_them = sum(_real(batch, pairs) for batch in batches), "labels" if pairs else "input_ids"
    return {
        "steps": args.steps,
        "seconds_per_step": float(step),
        "seconds": float(step) * args.steps,
        "memory_gb": memory(),
        "batches_per_epoch": parts.train.per_epoch,
        "padding": 1 - real / sum(batch[all_of_them].numel() for batch in batches),
    }


def _real(batch: Batch, pairs: bool) -> int:
    """Tokens that are not padding; of pairs those of the target."""
    if pairs:
        return int((batch["labels"] != IGNORED).sum())
    return int(batch["attention_mask"].sum()) if "attention_mask" in batch else batch["input_ids"].numel()
