"""What a person sees at the end of the demo."""

from pathlib import Path

import numpy as np
from rich.text import Text

from clearhead.demo.numbers import Split, bag_ceiling, draws
from clearhead.demo.run import TESTED, Result
from clearhead.demo.score import answers, cross_weights
from clearhead.demo.spell import spell
from clearhead.demo.task import EQUALS
from clearhead.text.pair import Pair
from clearhead.view.terminal import heat_map

EXAMPLE = 347  # the picture's number: its units and tens cross over
SETS: dict[Split, str] = {
    "hashed": "unseen numbers",
    "sevens": "numbers ending in 7, none of them trained",
    "thousands": "thousands 400-499, none of them trained",
    "train": "numbers of the training set",
}


def show(result: Result, folder: str | Path, width: int = 80) -> Text:
    """Scores, ten answers, where the decoder looked, and what to do next."""
    parts = [_scores(result), _answers(result)]
    if result.heads:
        parts.append(_picture(result, width))
    parts.append(_next(result, folder))
    return Text("\n").join(parts)


def _scores(result: Result) -> Text:
    report = result.report
    text = Text(f"{report['parameters']:,} parameters, {report['steps']} steps in {report['train_seconds']:.1f} s")
    text.append(f" ({report['tokens_per_second']:,.0f} target tokens/s)\n\nExactly right, of {TESTED:,} each:\n")
    for name, match in result.matches.items():
        low, high = match.interval
        text.append(f"  {SETS[name]:<42}")
        text.append(f"{100 * match.share:6.2f} %", style="bold")
        text.append(f"  ({100 * low:.1f} to {100 * high:.1f})\n")
    text.append("  in brackets: 95 % interval\n", style="dim")
    if result.plan.positions == "none" and result.heads:
        text.append(
            f"  Without positions the encoder sees a bag of words: at most {100 * bag_ceiling():.2f} % can be right.\n"
        )
    return text


def _answers(result: Result) -> Text:
    task, sample = result.plan.task, draws("hashed", 10, seed=2)
    text = Text("Ten unseen numbers:\n", style="")
    for n, answer in zip(sample, answers(result.model, task, sample), strict=True):
        right = answer == spell(int(n), task.to)
        text.append(f"  {spell(int(n), 'en')}\n")
        text.append(f"    {'✓' if right else '✗'} {answer}\n", style="green" if right else "red")
    return text


def _picture(result: Result, width: int) -> Text:
    """One translation's cross-attention: source words as columns, target tokens as rows."""
    task, head = result.plan.task, result.best
    assert isinstance(task.tokenizer, Pair)
    batch = task.batch(np.array([EXAMPLE]))
    rows = task.tokenizer.pieces(batch["labels"][0])
    columns = task.tokenizer.pieces(batch["input_ids"][0], target=False)
    weights = cross_weights(result.model, task, np.array([EXAMPLE]))[0, head].tolist()
    text = Text(f"Where cross-attention head {head} looks while {spell(EXAMPLE, task.to)} is written, in percent:\n\n")
    text.append_text(heat_map(weights, rows, columns, width))
    share = 100 * result.heads[head].share
    text.append(f"\n\nIts largest weight is on the matching word for {share:.1f} % of all pieces (unseen numbers).\n")
    text.append("Attention tells where the decoder reads, not where the word stood.\n")
    return text


def _next(result: Result, folder: str | Path) -> Text:
    task = result.plan.task
    text = Text(f"Saved in {folder}: the model, its tokenizer, report.json. Now try\n")
    if task.kind == "translation":
        text.append(f'  clearhead translate {folder} "three hundred and twenty-one"\n', style="bold")
    elif task.kind == "lm":
        text.append(f'  clearhead complete {folder} "three hundred and twenty-one{EQUALS}"\n', style="bold")
    text.append(f"  clearhead describe {folder}", style="bold")
    return text
