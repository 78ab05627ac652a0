"""Write the catalogue of mistakes, from the checker's bank: python docs/mistakes.py > docs/mistakes.md"""

from typing import Any

import numpy as np

from clearhead.checker.bank import MODULES
from clearhead.checker.mistake import Mistake
from clearhead.checker.pipeline import Context, work
from clearhead.checker.tasks.attend import CORE
from clearhead.lesson.example import TOKENS, example

HEAD = """# The catalogue of mistakes

Every mistake that `clearhead check` knows by name: what it means, the fix, and, where it can be seen in three tokens,
the weights of the [lesson's](lesson.md) example, right and wrong. Rows are queries, columns are keys; the example is
under the causal mask. This page is written from the checker's own bank.
"""


def main() -> None:
    print(HEAD)
    said: set[str] = set()
    for module in MODULES:
        print(f"## {(module.__doc__ or '').strip().splitlines()[0].rstrip('.')}\n")
        for mistake in module.MISTAKES:
            if mistake.id not in said:
                said.add(mistake.id)
                print("\n".join(entry(mistake)), end="\n\n")


def entry(mistake: Mistake) -> list[str]:
    """The mistake's heading, words and picture."""
    tasks = ", ".join(f"`{task}`" for task in mistake.tasks)
    lines = [f"### {mistake.id}", "", mistake.says, "", f"**Fix.** {mistake.fix}", "", f"In {tasks}."]
    shown = next((rows for way in mistake.ways if (rows := seen(way)) is not None), None)
    return lines if shown is None or "sdpa" not in mistake.tasks else [*lines, "", "```", *shown, "```"]


def seen(way: Any) -> list[str] | None:
    """Weights (or, where these agree, outputs) right and wrong side by side; None where nothing shows."""
    try:
        right, wrong = lesson({}), lesson(way)
    except Exception:
        return None
    for stage, title in (("shown", "weights"), ("result", "output")):
        a, b = (np.asarray(getattr(made, stage), np.float64) for made in (right, wrong))
        if a.shape != b.shape:
            return [f"{title}: shape {list(b.shape)} instead of {list(a.shape)}"]
        if not np.allclose(a, b, atol=5e-3, equal_nan=True):
            return table(a, b, title)
    return None


def lesson(way: Any) -> Context:
    """The lesson's example through the checker's stages, one of them changed."""
    one = example()
    given = dict.fromkeys(("given", "lengths", "window", "bias"))
    rest = {"form": "qk", "causal": True, "sizes": {"D": 4}, "style": "nan"}
    return work(CORE, Context(q=one.Q, k=one.K, v=one.V, x=one.X, **given, **rest), way)


def table(right: Any, wrong: Any, title: str) -> list[str]:
    """Rows of both, with two digits."""

    def cells(row: Any) -> str:
        return " ".join(f"{round(value, 2) + 0.0:6.2f}" for value in row)

    wide = len(cells(right[0]))
    lines = [f"{title:<10}{'right':<{wide}}     wrong"]
    return lines + [f"{name:<10}{cells(a)}     {cells(b)}" for name, a, b in zip(TOKENS, right, wrong, strict=True)]


if __name__ == "__main__":
    main()
