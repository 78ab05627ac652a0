"""The main job, run for real: it learns, recombines, aligns, saves, and can be used afterwards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.demo import run as demo
from clearhead.demo import score
from clearhead.demo.numbers import bag_ceiling, draws
from clearhead.demo.run import Plan, Result, run
from clearhead.demo.score import Match, alignment, answers, cross_weights, exact_match
from clearhead.demo.show import show
from clearhead.demo.spell import spell
from clearhead.demo.task import Task


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("demo") / "run"
    return run(Plan(task=Task()), folder, progress=False), folder


def test_it_learns_recombines_and_aligns(trained: tuple[Result, Path]) -> None:
    report = trained[0].report
    assert report["exact_match"] >= 0.98
    assert report["exact_match_sevens"] >= 0.75
    assert report["exact_match_thousands"] >= 0.98
    assert report["alignment_accuracy"] >= 0.75
    assert report["exact_match_recombined"] == pytest.approx(
        (report["exact_match_sevens"] + report["exact_match_thousands"]) / 2
    )
    assert report["parameters"] == 124_131


def test_the_report_on_disk_is_the_result(trained: tuple[Result, Path]) -> None:
    result, folder = trained
    on_disk = json.loads((folder / "report.json").read_text())
    assert on_disk == json.loads(json.dumps(result.report))
    names = {"exact_match", "exact_match_sevens", "exact_match_thousands", "exact_match_recombined"}
    names |= {"alignment_accuracy", "train_seconds", "tokens_per_second", "parameters"}
    assert names <= on_disk.keys()


def test_the_saved_model_translates(trained: tuple[Result, Path]) -> None:
    model = clearhead.load(trained[1])
    assert clearhead.translate(model, "three hundred and twenty-one") == "dreihunderteinundzwanzig"
    numbers = draws("hashed", 20, seed=5)
    several = clearhead.translate(model, [spell(int(n), "en") for n in numbers])
    assert several == answers(trained[0].model, trained[0].plan.task, numbers)
    assert sum(text == spell(int(n), "de") for text, n in zip(several, numbers, strict=True)) >= 18


def test_the_picture_shows_source_words_above_and_pieces_beside(trained: tuple[Result, Path]) -> None:
    result, folder = trained
    text = show(result, folder, width=80).plain
    picture = text[text.index("Where cross-attention") :].split("\n")
    columns = ["three", "hundred", "and", "forty", "seven", "</s>"]
    assert picture[2].split() == columns
    rows = [line.split() for line in picture[3:9]]
    assert [row[0] for row in rows] == ["drei", "hundert", "sieben", "und", "vierzig", "</s>"]
    numbers = np.array([[int(cell) for cell in row[1:]] for row in rows])
    assert numbers.shape == (6, 6)
    assert abs(numbers.sum(1) - 100).max() <= 3  # each row is a share, rounded
    assert columns[numbers[0].argmax()] == "three"
    assert columns[numbers[2].argmax()] == "seven"
    assert "not where the word stood" in text
    assert f"clearhead translate {folder}" in text


def test_the_head_is_chosen_on_numbers_that_do_not_score_it(trained: tuple[Result, Path]) -> None:
    result = trained[0]
    choice = alignment(result.model, result.plan.task, np.array([12, 345, 9_876]))
    assert len(choice) == len(result.heads) == 4
    assert choice[0].count == 1 + 4 + 6  # pieces with a gold word: all but "und"


@pytest.mark.parametrize("kind", ["lm", "encoder"])
def test_the_other_kinds_learn_too(kind, tmp_path: Path) -> None:
    result = run(Plan(task=Task(kind=kind), steps=60), tmp_path / "run", progress=False)
    assert result.history.losses[-1] < 0.6 * result.history.losses[0]
    assert result.heads == []
    assert "alignment_accuracy" not in result.report
    found = answers(result.model, result.plan.task, np.array([5, 400_000]))
    assert len(found) == 2
    assert "Exactly right" in show(result, tmp_path / "run").plain


def test_without_positions_the_ceiling_is_shown(tmp_path: Path) -> None:
    result = run(Plan(task=Task(), positions="none", steps=20), tmp_path / "run", progress=False)
    assert "train" in result.matches
    assert f"at most {100 * bag_ceiling():.2f} %" in show(result, tmp_path / "run").plain
    assert result.matches["train"].share <= bag_ceiling() + 0.02


def test_a_killed_run_leaves_the_old_folder_as_it_was(trained: tuple[Result, Path], tmp_path: Path) -> None:
    folder = trained[1]
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    code = (
        "import sys; from clearhead.demo.run import *\n"
        "import clearhead.demo.run as r\n"
        "def train(*a, **k):\n"
        "    import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
        "r.train = train\n"
        "run(Plan(task=Task(), steps=5), sys.argv[1], progress=False)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder)], env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert killed.returncode == -9
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_the_same_seed_gives_the_same_model(tmp_path: Path) -> None:
    first, second = (
        run(Plan(task=Task(), steps=5, seed=3), tmp_path / name, progress=False).model for name in ("a", "b")
    )
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))


def test_steps_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="steps is 0; train for at least 1"):
        run(Plan(task=Task(), steps=0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class ReachedError(Exception):
    """What a stand-in was given."""


def test_model_and_numbers_go_to_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(*given: object) -> None:
        raise ReachedError(*given)

    monkeypatch.setattr(demo, "train", lambda model, batches, *rest, **more: reach(model, next(batches)))
    with pytest.raises(ReachedError) as error:
        run(Plan(task=Task(), device="meta"), tmp_path / "run", progress=False)
    model, batch = error.value.args
    assert {tensor.device.type for tensor in (*model.parameters(), *batch.values())} == {"meta"}
    monkeypatch.setattr(score, "moved", lambda batch, device: reach(device.type))
    for look in (cross_weights, answers):
        with pytest.raises(ReachedError, match="meta"):
            look(model, Task(), np.array([347]))
    with pytest.raises(ReachedError, match="meta"):
        answers(model, Task(kind="encoder"), np.array([347]))


def test_a_device_that_is_not_there_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device 'moon' cannot be used here"):
        run(Plan(task=Task(), device="moon"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wilson_interval_and_sums() -> None:
    match = Match(99, 100)
    low, high = match.interval
    assert (low, high) == pytest.approx((0.9455, 0.9982), abs=1e-3)
    assert (match + Match(1, 100)).share == 0.5
    assert Match(5, 5).interval[1] == pytest.approx(1.0)


def test_exact_match_counts_whole_numbers() -> None:
    task = Task()
    torch.manual_seed(0)
    from clearhead.model.transformer import Transformer

    model = Transformer(task.config()).eval()
    model.tokenizer = task.tokenizer
    found = exact_match(model, task, np.array([1, 2, 3]))
    assert found.count == 3
    assert found.right == 0
