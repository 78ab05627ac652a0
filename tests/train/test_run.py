"""A run in its folder: stopped, killed or whole, it comes to the same bytes; nothing is overwritten unasked."""

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clearhead.families.load import load, save
from clearhead.generation.text import complete, translate
from clearhead.train import run as module
from clearhead.train.folder import CHECKPOINT, LOG, locked, publish, read_log
from clearhead.train.loss import Batch
from clearhead.train.recipe import Model, Recipe, Saving, Source, read_recipe
from clearhead.train.run import run
from clearhead.train.save import Checkpoint, save_checkpoint

TEXT = "".join(f"line {i} of {i * i % 37} small words\n" for i in range(60))
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and two files of sentences."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "text").write_text(TEXT, encoding="utf-8")
    (folder / "en").write_text("".join(f"number {i} is here\n" for i in range(40)), encoding="utf-8")
    (folder / "de").write_text("".join(f"die Zahl {i} ist da\n" for i in range(40)), encoding="utf-8")
    return folder


def recipe_of(files: Path, task: str = "lm") -> Recipe:
    names = ["en", "de"] if task == "translate" else ["text"]
    source = Source(train=tuple(str(files / name) for name in names))
    return Recipe(task=task, data=source, model=Model(dim=64, layers=1), steps=6, save=Saving(every=2))


Finished = tuple[Recipe, Path]


@pytest.fixture(scope="module")
def finished(files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """An uninterrupted run of each kind."""
    kinds = ("lm", "translate", "mlm")
    found = {kind: (recipe_of(files, kind), tmp_path_factory.mktemp("whole") / kind) for kind in kinds}
    for recipe, folder in found.values():
        run(recipe, folder)
    return found


@pytest.fixture(params=["lm", "translate", "mlm"])
def whole(finished: dict[str, Finished], request: pytest.FixtureRequest) -> Finished:
    """One of them."""
    return finished[request.param]


def state(folder: Path) -> tuple[bytes, bytes, list[Any]]:
    """What must be equal: weights, optimizers and random state, and each step without its time."""
    steps = [{**line, "seconds": None} for line in read_log(folder)]
    return (folder / WEIGHTS).read_bytes(), (folder / CHECKPOINT / "training.safetensors").read_bytes(), steps


def interrupt(monkeypatch: pytest.MonkeyPatch, number: signal.Signals, step: int) -> None:
    """The signal comes while this step is being made ready."""
    real = module.stream

    def interrupted(*given: Any) -> Iterator[Batch]:
        for i, batch in enumerate(real(*given), 1):
            if i == step:
                signal.raise_signal(number)
            yield batch

    monkeypatch.setattr(module, "stream", interrupted)


def test_a_run_leaves_a_model_that_works_and_a_report(whole: Finished) -> None:
    recipe, folder = whole
    model = load(folder)
    if recipe.task == "lm":
        assert complete(model, "line", max_new_tokens=3).startswith("line")
    if recipe.task == "translate":
        assert isinstance(translate(model, "number 3", max_new_tokens=3), str)
    assert read_recipe(folder / "recipe.yaml") == recipe
    log, report = read_log(folder), json.loads((folder / "report.json").read_text())
    assert [line["step"] for line in log] == [1, 2, 3, 4, 5, 6]
    assert log[-1]["loss"] < log[0]["loss"]
    assert report["steps"] == 6
    assert 0 <= report["accuracy"] < 1
    assert report["bits_per_byte"] is None if recipe.task == "mlm" else 0 < report["bits_per_byte"] < 8
    assert ("bleu" in report) == (recipe.task == "translate")
    assert [*report["samples"][0]][:2] == ["given", "sample"]
    assert sorted(file.name for file in folder.iterdir() if file.name.startswith(".")) == [".data", ".lock"]


@pytest.mark.parametrize(
    ("whole", "number"), [("lm", signal.SIGINT), ("translate", signal.SIGTERM)], indirect=["whole"]
)
def test_trn_03_stopped_saved_and_gone_on_with_in_a_new_process(
    whole: Finished,
    tmp_path: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recipe, folder = whole
    before = signal.getsignal(number)
    interrupt(monkeypatch, number, 3)
    assert run(recipe, tmp_path / "run") is None
    assert signal.getsignal(number) is before
    assert "stopped and saved" in caplog.text
    assert len(read_log(tmp_path / "run")) == 3
    words = ["train", "run", tmp_path / "run" / "recipe.yaml", "--out", tmp_path / "run"]
    line = [sys.executable, "-m", "clearhead", *map(str, words), "--resume", "--threads", "1"]
    second = subprocess.run(line, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert "validation loss" in second.stdout
    assert state(tmp_path / "run") == state(folder)


KILLS = {
    "training": "real = run.stream\nrun.stream = lambda *a: (b if i != 4 else die() for i, b in enumerate(real(*a)))",
    "saving": "write = save.write_json\nsave.write_json = lambda p, c: die() if c['step'] == 4 else write(p, c)",
    "renaming": "rename = os.rename\n"
    "os.rename = lambda a, b: die() if str(b).endswith('checkpoint') and os.path.exists(a / 'training.json') and "
    "json.load(open(a / 'training.json'))['step'] == 4 else rename(a, b)",
}


@pytest.mark.parametrize("moment", KILLS)
def test_trn_01_killed_at_any_moment_it_goes_on_to_the_same_bytes(
    files: Path, finished: dict[str, Finished], tmp_path: Path, moment: str
) -> None:
    recipe, folder = finished["lm"]
    code = (
        "import json, os, signal, sys, torch\nfrom pathlib import Path\ntorch.set_num_threads(1)\n"
        "from clearhead.train import run, save\n"
        "def die(): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"{KILLS[moment]}\n"
        "from clearhead.train.recipe import read_recipe\n"
        "run.run(read_recipe(Path(sys.argv[1])), Path(sys.argv[2]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, folder / "recipe.yaml", tmp_path / "run"], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "run" / "report.json").exists()
    assert run(recipe, tmp_path / "run", resume=True) is not None
    assert state(tmp_path / "run") == state(folder)
    assert {file.name for file in (tmp_path / "run").iterdir()} == {file.name for file in folder.iterdir()}


def test_a_finished_run_stays_as_it_is(whole: Finished, caplog: pytest.LogCaptureFixture) -> None:
    recipe, folder = whole
    before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*")}
    assert run(recipe, folder, resume=True) == json.loads((folder / "report.json").read_text())
    assert "is finished: nothing is left to do" in caplog.text
    assert before == {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*")}


def test_resume_without_a_checkpoint_begins_and_says_so(
    whole: Finished, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe, folder = whole
    run(recipe, tmp_path / "run", resume=True)
    assert "has no checkpoint: starting from the beginning" in caplog.text
    assert state(tmp_path / "run") == state(folder)


def test_a_second_run_in_the_folder_is_refused_until_the_first_is_gone(files: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(ValueError, match="is in use by another run; wait for it, or choose"):
        run(recipe_of(files), tmp_path / "run")
    with locked(tmp_path / "run"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be used: File exists; choose another folder"):
        run(recipe_of(files), tmp_path / "file")


def test_nothing_is_overwritten_or_gone_on_with_by_mistake(files: Path, whole: Finished, tmp_path: Path) -> None:
    recipe, folder = whole
    with pytest.raises(ValueError, match="holds a run; add --resume to go on with it, or choose another folder"):
        run(recipe, folder)
    with pytest.raises(ValueError, match=r"steps is 7, but the run in .* was begun with 6; give the same line"):
        run(replace(recipe, steps=7), folder, resume=True)
    other = tmp_path / "other"
    other.write_text(Path(recipe.data.train[-1]).read_text().replace("1", "#"))
    with pytest.raises(ValueError, match=r"data is sha256 \w{16}, but the run in .* was begun with sha256"):
        run(replace(recipe, data=Source(train=(*recipe.data.train[:-1], str(other)))), folder, resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    with pytest.raises(ValueError, match="is not empty; choose another folder"):
        run(recipe, tmp_path / "full")


@pytest.mark.parametrize("resume", [True, False])
def test_trn_05_weights_alone_are_to_start_from(whole: Finished, tmp_path: Path, resume: bool) -> None:
    recipe, folder = whole
    save(load(folder), tmp_path / "model")
    with pytest.raises(ValueError, match="holds a model but no run: start from it with --from"):
        run(recipe, tmp_path / "model", resume)
    report = run(replace(recipe, model=Model(start=str(tmp_path / "model")), steps=1), tmp_path / "run")
    first = json.loads((folder / "report.json").read_text())
    assert report is not None
    assert report["training_loss"] < read_log(folder)[0]["loss"]
    assert report["validation_loss"] == pytest.approx(first["validation_loss"], rel=0.2)


def test_a_model_of_another_kind_is_refused(files: Path, whole: Finished, tmp_path: Path) -> None:
    recipe, folder = whole
    other = recipe_of(files, "translate" if recipe.task == "lm" else "lm")
    with pytest.raises(ValueError, match=f"needs .*; use train {recipe.task}"):
        run(replace(other, model=Model(start=str(folder))), tmp_path / "run")


def test_trn_02_a_full_disk_leaves_the_first_checkpoint_whole(
    files: Path, finished: dict[str, Finished], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(reached: Checkpoint, folder: Path, *here: Any) -> None:
        if reached.step == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_checkpoint(reached, folder, *here)

    monkeypatch.setattr(module, "save_checkpoint", full)
    with pytest.raises(ValueError, match=r"step 4 could not be saved in .*No space left.*make room"):
        run(recipe_of(files), tmp_path / "run")
    monkeypatch.undo()
    assert json.loads((tmp_path / "run" / CHECKPOINT / "training.json").read_text())["step"] == 2
    run(recipe_of(files), tmp_path / "run", resume=True)
    assert state(tmp_path / "run") == state(finished["lm"][1])


def test_publish_replaces_a_model_by_the_checkpoints(whole: Finished) -> None:
    _, folder = whole
    right = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(b"half")
    publish(folder)
    assert (folder / WEIGHTS).read_bytes() == right
    assert (folder / LOG).exists()


def test_parts_that_are_frozen_stay_as_they_are(whole: Finished, tmp_path: Path) -> None:
    recipe, folder = whole
    asked = Model(start=str(folder), freeze=("*.layers.*.self_attention.*",), dropout=0.2)
    run(replace(recipe, model=asked, steps=2), tmp_path / "run")
    before, after = (dict(load(place).named_parameters()) for place in (folder, tmp_path / "run"))
    same = {name for name, parameter in before.items() if parameter.equal(after[name])}
    assert same == {name for name in before if ".self_attention." in name}
