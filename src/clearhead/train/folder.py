"""The folder of a run: one process at a time, a checkpoint, a log of every step, and the model to use."""

import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clearhead.families.store import new_folder, read_json, recover, write_json

LOCK, CHECKPOINT, ASKED, LOG, REPORT = ".lock", "checkpoint", "run.json", "log.jsonl", "report.json"


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """The folder is this process's until the block ends, or the process does, however it does.

    Raises ValueError if another process has it, or if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "a")  # noqa: SIM115
    except OSError as error:
        raise ValueError(f"{folder} cannot be used: {error.strerror}; choose another folder") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"{folder} is in use by another run; wait for it, or choose another folder") from error
        yield


def check_use(folder: Path, resume: bool) -> None:
    """ValueError for a folder that would be overwritten, or that there is no going on from."""
    begun = (folder / ASKED).exists()
    if not resume and begun:
        raise ValueError(f"{folder} holds a run; add --resume to go on with it, or choose another folder")
    if not begun and (folder / "config.json").exists():
        raise ValueError(
            f"{folder} holds a model but no run: start from it with --from {folder} and another --out; going on needs "
            f"{ASKED} and {CHECKPOINT}"
        )
    if not begun and any(not file.name.startswith(".") for file in folder.iterdir()):
        raise ValueError(f"{folder} is not empty; choose another folder")


def check_asked(folder: Path, asked: dict[str, Any]) -> None:
    """ValueError where the run in the folder, if there is one, was asked for something else."""
    said = read_json(folder / ASKED) if (folder / ASKED).exists() else asked
    for name, value in asked.items():
        if said.get(name) != value and name != "files":  # they may have moved
            raise ValueError(
                f"{name} is {value}, but the run in {folder} was begun with {said.get(name)}; give the same line, or "
                f"start anew from it with --from {folder} and another --out"
            )


def put(folder: Path, name: str, content: dict[str, Any]) -> None:
    """A JSON file of the folder, there as a whole or not at all."""
    fresh = folder / f".{name}.new"
    write_json(fresh, content)
    os.replace(fresh, folder / name)


def last_saved(folder: Path) -> Path | None:
    """The checkpoint, if there is one; what a killed process left of another is cleared away."""
    place = folder / CHECKPOINT
    recover(place)
    for left in folder.glob(".*.new-*"):
        shutil.rmtree(left)
    return place if place.exists() else None


def publish(folder: Path, source: str = CHECKPOINT) -> None:
    """The model of the checkpoint, or of another source, as the folder's own: each file at once, the weights last.

    What stands beside it in a folder of its own, such as an adapter, comes first.
    """
    for beside in [place for place in (folder / source).iterdir() if place.is_dir()]:
        with new_folder(folder / beside.name) as fresh:
            shutil.copytree(beside, fresh, dirs_exist_ok=True)
    files = [file for file in (folder / source).iterdir() if file.is_file() and not file.name.startswith("training.")]
    for file in sorted(files, key=lambda file: file.suffix == ".safetensors"):
        fresh = folder / f".{file.name}.new"
        shutil.copyfile(file, fresh)
        os.replace(fresh, folder / file.name)


def read_log(folder: Path, name: str = LOG) -> list[dict[str, Any]]:
    """What is written down by step, without a line that a killed process wrote half of."""
    file = folder / name
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def cut_log(folder: Path, step: int, name: str = LOG) -> None:
    """Forget the steps after this one: they will be done again."""
    kept = [line for line in read_log(folder, name) if line["step"] <= step]
    fresh = folder / f".{name}.new"
    fresh.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept), encoding="utf-8")
    os.replace(fresh, folder / name)
