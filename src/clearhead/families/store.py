"""Folders that are complete or invisible, and tensors without pickle."""

import json
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor


@contextmanager
def new_folder(path: str | Path) -> Generator[Path]:
    """A temporary folder to fill; it takes the place of `path` when the block ends, and vanishes if the block fails.

    Written through to the disk before it is renamed, so that a reader sees the old folder or the new one, never a part
    of either. Raises ValueError if `path` is a file.
    """
    path = Path(os.path.abspath(path))
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; choose a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    fresh = Path(tempfile.mkdtemp(prefix=f".{path.name}.new-", dir=path.parent))
    try:
        yield fresh
        hidden = _umask()
        fresh.chmod(0o777 & ~hidden)
        for file in fresh.rglob("*"):
            file.chmod((0o777 if file.is_dir() else 0o666) & ~hidden)  # some libraries write for the owner only
            _flush(file)
        _flush(fresh)
        _exchange(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def recover(path: Path) -> None:
    """Put back the old folder if a run was killed in the instant between taking it away and placing the new one."""
    if not path.exists():
        for old in path.parent.glob(f".{path.name}.old-*"):
            os.rename(old, path)
            return


def _exchange(fresh: Path, path: Path) -> None:
    old = path.parent / f".{path.name}.old-{fresh.name.rsplit('-', 1)[1]}"
    if path.exists():
        os.rename(path, old)
    os.rename(fresh, path)
    _flush(path.parent)
    for stale in path.parent.glob(f".{path.name}.old-*"):
        shutil.rmtree(stale, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: object) -> None:
    """Readable JSON, UTF-8, ending with a line feed."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ValueError that names the file if it is missing, broken, or no object."""
    if not path.is_file():
        raise ValueError(f"{path} is missing; is {path.parent} a complete model folder?")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not JSON ({error}); the folder may be damaged or half-written") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not an object")
    return cast(dict[str, Any], content)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file; tensors are written as they are."""
    save_file({name: t.detach().contiguous() for name, t in tensors.items()}, path, metadata={"format": "pt"})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file. Raises ValueError if it is missing or damaged."""
    if not path.is_file():
        raise ValueError(f"{path} is missing; is {path.parent} a complete model folder?")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}; copy or save the model again") from error
