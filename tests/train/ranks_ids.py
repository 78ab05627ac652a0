"""What each process of `torchrun` does in the tests of texts: run a recipe, and write down what it made of them."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from clearhead.train import start, task_text
from clearhead.train.data import tokens
from clearhead.train.data.ids import Stored
from clearhead.train.recipe import read_recipe
from clearhead.train.run import run


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    made: list[str] = []
    ids: list[str] = []

    def noted(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any) -> Any:
            made.append(name)
            return make(*given)

        return noting

    cached = tokens.cached

    def digested(*given: Any) -> Stored:
        found = cached(*given)
        rows = found.columns["ids"]
        ids.append(hashlib.sha256(rows.span(0, rows.total).tobytes()).hexdigest())
        return found

    tokens.store = noted("ids", tokens.store)
    start.tokenizer_for = noted("tokenizer", start.tokenizer_for)
    task_text.cached = digested
    run(read_recipe(folder / "recipe.yaml"), folder / "run")
    (folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps({"made": made, "ids": ids}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
