"""Every implementation of the corpus: right code passes, and of wrong code the first mistake named is the one made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clearhead.checker.client import Worker

sys.path.insert(0, str(Path(__file__).parent))

from cases import Item, everything

ITEMS = everything()
SHARE = 4  # every fourth, in the order of the files, belongs to the fast tests; the others take minutes


def params() -> list[Any]:
    return [
        pytest.param(item, id=item.name, marks=[pytest.mark.slow] if i % SHARE else []) for i, item in enumerate(ITEMS)
    ]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(seconds=60) as made:
        yield made


def test_the_corpus_is_broad() -> None:
    right = [item for item in ITEMS if not item.expected]
    assert len(right) >= 100
    assert len(ITEMS) - len(right) >= 250


@pytest.mark.parametrize("item", params())
def test_named(item: Item, worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "attempt.py"
    path.write_text(item.text)
    flags = {name: value for name, value in item.flags.items() if name != "kind"}
    verdict = worker.ask(str(path), flags)[0]
    assert verdict.get("error") is None
    if item.expected:
        assert verdict["passed"] is False
        assert verdict["mistakes"][0] in item.expected
    else:
        assert verdict["passed"] is True, verdict["mistakes"]
