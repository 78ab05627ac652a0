"""Killed at any moment, or out of room: what was saved is whole, and going on comes to the same bytes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.families.load import load
from clearhead.train.folder import LOG
from clearhead.train.keep import KEPT, kept
from clearhead.train.recipe import write_recipe
from clearhead.train.run import run
from train.runs import recipe_for, state, text_in

KILLS = 20


def line(recipe: Path, folder: Path, *more: str) -> list[str]:
    words = ["train", "run", recipe, "--out", folder, "--threads", "1", *more]
    return [sys.executable, "-m", "clearhead", *map(str, words)]


def begun(process: "subprocess.Popen[bytes] | subprocess.Popen[str]", log: Path, size: int) -> bool:
    """Wait until the log is longer than this, or the process has ended."""
    while process.poll() is None:
        if log.exists() and log.stat().st_size > size:
            return True
        time.sleep(0.002)
    return False


def names_in(folder: Path) -> set[Path]:
    return {file.relative_to(folder) for file in folder.rglob("*") if ".data" not in file.parts}


@pytest.mark.slow
def test_trn_01_killed_at_twenty_random_moments_it_comes_to_the_same_bytes(tmp_path: Path) -> None:
    recipe = recipe_for(text_in(tmp_path), steps=200, save={"every": 3, "keep": 3}, watch={"evaluate_every": 5})
    run(recipe, tmp_path / "whole")
    write_recipe(recipe, tmp_path / "recipe.yaml")
    chance, folder, killed = random.Random(0), tmp_path / "killed", 0
    pause = json.loads((tmp_path / "whole" / "report.json").read_text())["train_seconds"] / (2 * KILLS)
    while killed < KILLS:
        size = (folder / LOG).stat().st_size if (folder / LOG).exists() else 0
        process = subprocess.Popen(line(tmp_path / "recipe.yaml", folder, "--resume"), stderr=subprocess.DEVNULL)
        assert begun(process, folder / LOG, size), "it ended before it could be killed"
        time.sleep(chance.uniform(0, pause))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert not (folder / "report.json").exists()
    run(recipe, folder, resume=True)
    assert state(folder) == state(tmp_path / "whole")
    assert names_in(folder) == names_in(tmp_path / "whole"), "nothing is left over"
    for a, b in zip(kept(folder), kept(tmp_path / "whole"), strict=True):
        assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs rights that this user has not")
    yield place
    subprocess.run(["umount", place], check=True)


def test_trn_02_a_disk_that_fills_up_leaves_the_first_checkpoint_whole(small_disk: Path, tmp_path: Path) -> None:
    file = text_in(tmp_path)
    cache = {"train": str(file), "cache": str(tmp_path / "cache")}
    recipe = recipe_for(file, data=cache, steps=400, save={"every": 1})
    write_recipe(recipe, tmp_path / "recipe.yaml")
    folder = small_disk / "run"
    process = subprocess.Popen(line(tmp_path / "recipe.yaml", folder), stderr=subprocess.PIPE, text=True)
    assert begun(process, folder / LOG, 300), "it ended before two steps were done"
    process.send_signal(signal.SIGSTOP)
    left = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"0" * max(left.f_bavail * left.f_frsize - 100_000, 0))
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 2, said
    assert "could not be saved in" in said
    assert "No space left on device" in said
    assert "what was saved before is whole: make room, then go on with --resume" in said
    assert "Traceback" not in said
    step = json.loads((folder / "checkpoint" / "training.json").read_text())["step"]
    load(folder / "checkpoint")
    load(folder)
    assert not list(folder.glob(".checkpoint*")), "what was begun is gone"
    (small_disk / "filler").unlink()
    shorter = recipe_for(file, data=cache, steps=400, save={"every": 1000})
    write_recipe(shorter, tmp_path / "recipe.yaml")
    process = subprocess.Popen(line(tmp_path / "recipe.yaml", folder, "--resume"), stderr=subprocess.DEVNULL)
    assert begun(process, folder / LOG, (folder / LOG).stat().st_size)
    process.terminate()
    assert process.wait(timeout=60) == 0
    assert json.loads((folder / "checkpoint" / "training.json").read_text())["step"] > step
    assert not (folder / KEPT).exists()
