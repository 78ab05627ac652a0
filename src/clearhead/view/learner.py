"""The learner's screen: the lesson as one page to play with, which needs no model, no server and no network."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np

from clearhead import reference
from clearhead.lesson import example as worked
from clearhead.lesson import page as topic
from clearhead.view.learner_code import block
from clearhead.view.learner_mistakes import PAGES, told
from clearhead.view.page import SHARED, alone

SECTIONS = (
    *("base.css", "learner.css", "learner-narrow.css"),
    *SHARED,
    *("learner-formulas.js", "learner-mistakes.js", "learner-state.js", "learner-matrices.js", "learner-pages.js"),
    *("learner-order.js", "learner-view.js", "learner-judge.js", "learner-board.js", "learner-cells.js"),
    *("learner-controls.js", "learner-panels.js", "learner-head.js", "learner.js"),
)
# Topics of the lesson that the page has something to play with for, and where.
ADDRESSES = {
    "attention": "",
    "mask": "#v=1&p=attention&s=5&c=1",
    "heads": "#v=1&p=heads",
    "order": "#v=1&p=order",
    "positions": "#v=1&p=order&n=1",
    "encoder-decoder": "#v=1&p=cross",
}
BEGIN = (
    'mountLearner(document.querySelector("#clearhead"), JSON.parse(document.querySelector("#lesson").textContent));\n'
)

SPARE = {"down": [0, 0, 1, 1], "on": [1, 0, 0, 1], "it": [0, 1, 1, 0]}  # tokens to add to the three of the lesson
TARGET = {"die": [0, 0, 1, 1], "Katze": [1, 0, 0, 1]}  # what a decoder has written, for cross-attention


def lesson() -> dict[str, Any]:
    """Everything the page is given, as plain data: numbers, words, lines of code and mistakes."""
    given = worked.example()
    return {
        "version": 1,
        "tokens": list(worked.TOKENS),
        "X": given.X.tolist(),
        **{name: getattr(given, name).tolist() for name in ("Wq", "Wk", "Wv")},
        "Wo": output_weights().tolist(),
        "spare": [{"token": token, "row": row} for token, row in SPARE.items()],
        "target": {"tokens": list(TARGET), "Y": list(TARGET.values())},
        "words": {step.name: step.words for step in topic("attention").steps},
        "code": _code(),
        "mistakes": {name: [told(broken) for broken in page] for name, page in PAGES.items()},
    }


def output_weights() -> reference.Array:
    """Wo [D D] for the page of two heads: the fourth matrix of the generator that drew Wq, Wk and Wv."""
    generator = np.random.default_rng(0)
    return [generator.normal(0, 1, (4, 4)).round(1) for _ in range(4)][3]


def _code() -> dict[str, list[dict[str, Any]]]:
    attention = [block(function) for function in (reference.causal_mask, reference.attention, reference.softmax)]
    heads = block(reference.multi_head_attention)
    return {
        "attention": [block(worked.example, ("X", "return")), *attention],
        "heads": [heads, *attention[1:]],
        "order": [block(reference.sinusoidal_positions), attention[1]],
        "cross": [heads, *attention[1:]],
    }


def html() -> str:
    """The page: one file that asks for nothing else, and that no other script can get into."""
    return alone("Attention, worked out", "lesson", SECTIONS, BEGIN, lesson())


def write(path: str | Path) -> Path:
    """Write the page, over a file of that name if there is one. Raises ValueError for a folder that is not there."""
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; make it first")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it, such as {path / 'lesson.html'}")
    path.write_text(html(), encoding="utf-8")
    return path


def show(topic: str = "attention") -> tuple[Path, bool]:
    """Write the page to a temporary file, which stays, and open it: the file, and whether a browser was found.

    Raises ValueError for a topic that the page does not have.
    """
    if topic not in ADDRESSES:
        raise ValueError(f"topic {topic!r} has no page to open; choose one of {', '.join(ADDRESSES)}")
    path = write(Path(tempfile.mkdtemp(prefix="clearhead-")) / "lesson.html")
    return path, webbrowser.open(path.as_uri() + ADDRESSES[topic])
