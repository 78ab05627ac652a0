"""Small runs for tests: a text, a recipe, and what must be equal between two folders."""

from pathlib import Path
from typing import Any

from clearhead.train.folder import CHECKPOINT, read_log
from clearhead.train.recipe import Recipe, recipe_of
from clearhead.train.save import MOMENTS, RANDOM

WORDS = "".join(f"line {i} of {i * i % 37} small words\n" for i in range(60))


def text_in(folder: Path) -> Path:
    file = folder / "text.txt"
    file.write_text(WORDS, encoding="utf-8")
    return file


def recipe_for(file: Path, **settings: Any) -> Recipe:
    """Six short steps of a tiny language model."""
    plain: dict[str, Any] = {
        "task": "lm",
        "data": {"train": str(file)},
        "model": {"dim": 64, "layers": 1, "dropout": 0.1},
        "batch": {"tokens": 64, "block": 16},
        "steps": 6,
        "save": {"every": 2},
    }
    return recipe_of({**plain, **settings})


def state(folder: Path) -> tuple[bytes, bytes, bytes, list[Any]]:
    """Weights, moments, random states, and each step without its time."""
    files = (folder / "model.safetensors", folder / CHECKPOINT / MOMENTS, folder / CHECKPOINT / RANDOM)
    steps = [{**line, "seconds": None} for line in read_log(folder)]
    a, b, c = (file.read_bytes() for file in files)
    return a, b, c, steps
