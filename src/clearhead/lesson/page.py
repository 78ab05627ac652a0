"""What a lesson shows, as plain data: a page is a list of steps, a step is a name, a line of words and numbers.

Letters of the shapes: B batch, H heads, Q queries, K keys, T tokens, E head width, D model width, F feed-forward
width, V vocabulary, R pairs of columns, N positions.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# An array (drawn as a matrix), columns by name (drawn as a table), tokens, a drawing in text, or one number.
Value = NDArray[Any] | dict[str, list[Any]] | list[str] | str | float


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One thing to look at. `name` is also its key in the JSON document."""

    name: str
    words: str  # one line
    value: Value
    shape: str = ""  # its letters, such as "Q K"
    formula: str = ""  # how it follows from the steps before it
    labels: Sequence[Sequence[str]] = ()  # names along each axis of an array, or of the rows of a table
    note: str = ""  # what to notice in the numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Page:
    """One topic."""

    topic: str
    title: str
    steps: tuple[Step, ...]
    data: dict[str, Value | int] = field(default_factory=dict)  # for programs only: in the JSON, not in the text

    def __getitem__(self, name: str) -> Any:
        """The value of the step called `name`."""
        return {step.name: step.value for step in self.steps}[name]


def to_json(page: Page) -> str:
    """One document, one line per key: every value at full precision under its step's name, and what is said of it."""
    about = [
        {"name": s.name, "shape": s.shape, "formula": s.formula, "words": s.words, "note": s.note} for s in page.steps
    ]
    values = {s.name: s.value for s in page.steps} | page.data
    document = {"topic": page.topic, "title": page.title, **values, "steps": about}
    lines = [f" {json.dumps(key)}: {_dump(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def _dump(value: Any) -> str:
    plain = value.tolist() if isinstance(value, np.ndarray) else value
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
