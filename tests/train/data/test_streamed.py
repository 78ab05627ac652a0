"""A stream that is gone on with: the same batches, read from where it was left."""

import json
import signal
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch

from clearhead.train import run as running
from clearhead.train import task_text
from clearhead.train.data import files, ids
from clearhead.train.data.batches import stream
from clearhead.train.data.streamed import Streamed, go_on, mark_of
from clearhead.train.folder import CHECKPOINT
from clearhead.train.loss import Batch
from clearhead.train.recipe import Recipe, recipe_of
from clearhead.train.run import run
from clearhead.train.start import new
from clearhead.train.task import task_of
from train.runs import state

ROWS, HELD = 97, 6
Counts = list[str]


@pytest.fixture(params=["hub", "table", "running", "pairs"])
def recipe(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A stream of rows in small slabs: of the hub in three shards, of a table, of packed running text, or of pairs."""
    monkeypatch.setattr(ids, "TOGETHER", 7)
    monkeypatch.setattr(task_text, "SLAB", 4)
    monkeypatch.setattr(files, "HELD", HELD)
    monkeypatch.setattr(files, "HELD_CHARACTERS", 100)
    monkeypatch.setattr(files, "CHUNK", 50)
    rows = [f"{i} is row {i * i % 37}" for i in range(ROWS)]
    shards = datasets.Dataset.from_dict({"text": rows}).to_iterable_dataset(num_shards=3)
    monkeypatch.setattr(datasets, "load_dataset", lambda *words, **named: shards)
    (tmp_path / "a.csv").write_text("text\n" + "\n".join(rows))
    (tmp_path / "a.txt").write_text("\n".join(rows))
    (tmp_path / "a.tsv").write_text("\n".join(f"{row}\t{row[::-1]}" for row in rows))
    names = {"hub": "owner/name", "table": "a.csv", "running": "a.txt", "pairs": "a.tsv"}
    name = names[request.param] if request.param == "hub" else str(tmp_path / names[request.param])
    plain: dict[str, Any] = {
        "task": "translate" if request.param == "pairs" else "lm",
        "data": {"train": name, "stream": True},
        "model": {"dim": 64, "layers": 1, "dropout": 0.1},
        "tokenizer": {"kind": "byte"},
        "batch": {"tokens": 64, "block": 16, "pack": request.param == "running"},
        "steps": 24,
        "save": {"every": 100},
    }
    return recipe_of(plain)


@pytest.fixture
def fresh(recipe: Recipe, tmp_path: Path) -> Callable[[], Streamed]:
    """The stream as another process would make it."""
    task = task_of(recipe)
    model = new(recipe, task.texts)

    def make() -> Streamed:
        data = task_of(recipe).data(model, tmp_path / "ids").train
        assert isinstance(data, Streamed)
        return data

    return make


def equal(a: Batch, b: Batch) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_trn_04_a_stream_goes_on_where_it_was_left_also_in_a_later_pass(fresh: Callable[[], Streamed]) -> None:
    whole = list(islice(stream(fresh(), 3), 90))
    slabs: set[int] = set()
    for done in range(0, 80, 3):
        left = fresh()
        for _ in islice(stream(left, 3), done):
            pass
        mark = json.loads(json.dumps(mark_of(left)))
        slabs.add(mark[0])
        assert mark[1] <= done
        again = fresh()
        go_on(again, mark)
        assert all(equal(a, b) for a, b in zip(whole[done : done + 20], stream(again, 3, done), strict=False)), done
    assert len(slabs) > 4


def test_only_the_slab_that_was_left_is_made_ids_of_again(
    fresh: Callable[[], Streamed], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = fresh()
    for _ in islice(stream(left, 3), 9):
        pass
    begins = left.mark.place.rows
    seen: list[int] = []
    real = ids.in_groups

    def noted(rows: Iterator[ids.Row]) -> Iterator[list[ids.Row]]:
        for group in real(rows):
            seen.append(len(group))
            yield group

    monkeypatch.setattr("clearhead.train.data.tokens.in_groups", noted)
    for mark in (None, mark_of(left)):
        again = fresh()
        seen.clear()
        go_on(again, mark)
        batch = next(stream(again, 3, 9))
        if mark is None:
            most, first = sum(seen), batch
    assert begins > 0
    assert sum(seen) < most
    assert equal(batch, first)


@pytest.mark.parametrize("recipe", ["hub"], indirect=True)
def test_a_data_set_of_the_hub_is_not_read_over(
    recipe: Recipe, fresh: Callable[[], Streamed], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = fresh()
    for _ in islice(stream(left, 3), 14):
        pass
    assert left.mark.place.rows > 40
    read: list[str] = []
    real = files.picked
    monkeypatch.setattr(files, "picked", lambda row, *rest: read.append(row["text"]) or real(row, *rest))
    again = fresh()
    go_on(again, mark_of(left))
    read.clear()
    next(stream(again, 3, 14))
    assert read[0] == f"{left.mark.place.rows} is row {left.mark.place.rows**2 % 37}"


@pytest.mark.parametrize("recipe", ["hub", "running"], indirect=True)
def test_trn_03_a_run_on_a_stream_stopped_and_gone_on_with_is_the_same_to_the_bit(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(recipe, tmp_path / "whole")
    real = running.stream

    def interrupted(*given: Any) -> Iterator[Batch]:
        for i, batch in enumerate(real(*given), 1):
            if i == 15:
                signal.raise_signal(signal.SIGTERM)
            yield batch

    monkeypatch.setattr(running, "stream", interrupted)
    assert run(recipe, tmp_path / "run") is None
    monkeypatch.setattr(running, "stream", real)
    mark = json.loads((tmp_path / "run" / CHECKPOINT / "training.json").read_text())["mark"]
    assert mark[1] > 4, "some slabs are behind it"
    assert run(recipe, tmp_path / "run", resume=True) is not None
    assert state(tmp_path / "run") == state(tmp_path / "whole")
