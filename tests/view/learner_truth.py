"""What the learner's numbers should be: the checker's own pipeline, and the very lines of code that the page shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.checker import bank
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.tasks.heads import HEADS
from clearhead.lesson.example import Example
from clearhead.view.learner import lesson
from clearhead.view.learner_mistakes import PAGES, Broken

# what the page calls a matrix, and the checker's stage of those numbers
STAGES = ("q", "k", "v", "scores", "scaled", "masked", "used", "result", "merged", "answer")


def given(seed: int, queries: int = 3, keys: int | None = None, heads: int = 1, causal: bool = False) -> dict[str, Any]:
    """Random numbers of one decimal, as a learner would type them."""
    draw = np.random.default_rng(seed)
    x, y = (draw.normal(0, 1, (n, 4)).round(1) for n in (queries, keys or queries))
    wq, wk, wv, wo = (draw.normal(0, 1, (4, 4)).round(1) for _ in range(4))
    made = {"x": x, "y": x if keys is None else y, "wq": wq, "wk": wk, "wv": wv, "wo": wo if heads > 1 else None}
    return {**made, "heads": heads, "causal": causal}


EVEN = given(12, 4) | {"wq": np.zeros((4, 4))}  # every weight is 0.25: half to even when it is rounded
CODE = lesson()["code"]
RANDOM = {
    "attention": [given(1), given(2, causal=True), given(3, 4, causal=True), given(4, 1), given(5, 6), EVEN],
    "heads": [given(6, heads=2), given(7, 4, heads=2), given(8, 2, heads=2, causal=True)],
    "cross": [given(9, 2, 3), given(10, 3, 3), given(11, 5, 1)],
}


def way(page: str, broken: Broken) -> Change:
    """The catalogue's way to make this mistake that the shown line takes: the same answer on all numbers."""
    return _way(page, broken.id)


@cache
def _way(page: str, mistake_id: str) -> Change:
    (broken,) = (broken for broken in PAGES[page] if broken.id == mistake_id)
    shown = [_tried(partial(run_shown_code, page, broken.lines, numbers)) for numbers in RANDOM[page]]
    for mistake in (mistake for mistake in bank.every() if mistake.id == mistake_id):
        for change in mistake.ways:
            if all(_alike(mine, numbers, change) for mine, numbers in zip(shown, RANDOM[page], strict=True)):
                return change
    raise AssertionError(f"{broken.id}: the line that is shown is none of the catalogue's ways")


def _alike(mine: Any, numbers: dict[str, Any], change: Change) -> bool:
    """Whether both give the same answer, or neither runs."""
    theirs = _tried(lambda: checker_numbers(numbers, change).answer[0])
    if theirs is None or mine is None:
        return theirs is mine
    return theirs.shape == mine.shape and np.allclose(theirs, mine, equal_nan=True)


def _tried(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (ValueError, IndexError, AttributeError, TypeError):
        return None


def checker_numbers(numbers: dict[str, Any], change: Change) -> Context:
    """All stages of the checker's reference under a change, for one sample; hidden rows are zeros."""
    context = Context(
        **{k: numbers[k] for k in ("wq", "wk", "wv", "wo", "heads", "causal")},
        x=numbers["x"][None],
        y_k=numbers["y"][None],
        y_v=numbers["y"][None],
        groups=numbers["heads"],
        sizes={"D": 4, "H": numbers["heads"]},
        **dict.fromkeys(("bias", "given", "lengths", "window", "other")),
        form="qk",
        style="zero",
    )
    return work(HEADS, context, change)


def run_shown_code(page: str, lines: dict[str, str], numbers: dict[str, Any]) -> Any:
    """The output of the code that the page shows, with the lines of a mistake in place."""
    names: dict[str, Any] = {**vars(reference), "Example": Example}
    for block in CODE[page]:
        body = [lines.get(f"{block['name']}.{name}", code) for name, code in block["lines"]]
        if block["name"] != "example":
            exec("\n".join([block["head"], *body]), names)
        else:
            exec("\n".join(["def projected(X, Wq, Wk, Wv):", *(b for b in body if "return" in b)]), names)
    x, y = numbers["x"], numbers["y"]
    mask = names["causal_mask"](len(x), len(y)) if numbers["causal"] else None
    with np.errstate(all="ignore"):
        if page == "attention":
            made = names["projected"](x, *(numbers[w] for w in ("wq", "wk", "wv")))
            return names["attention"](made.Q, made.K, made.V, mask).output
        wo = np.eye(4) if numbers["wo"] is None else numbers["wo"]
        weights = (numbers[w] for w in ("wq", "wk", "wv"))
        return names["multi_head_attention"](x, y, *weights, wo, numbers["heads"], mask)
