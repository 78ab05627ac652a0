"""The tensors of a model's folder by name: memory-mapped, one at a time, from one file or from shards."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from clearhead.families.store import read_json

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Weights:
    """`names` of all tensors, and `read(name)`. Opening reads the headers only.

    Raises ValueError, naming the file, for one that is missing or damaged, for a shard that is not a plain file of the
    folder, and for a tensor that its shard does not hold or that two shards hold.
    """

    def __init__(self, folder: Path, older: Mapping[str, str] | None = None) -> None:
        """`older`: endings that older files write, and what they are now."""
        self._home: dict[str, tuple[Path, str]] = {}
        self._older = dict(older or {})
        whole, index = folder / WHOLE, folder / INDEX
        if whole.exists() or not index.exists():
            promised: dict[str, str] = {}
            files = [WHOLE]
        else:
            promised = weight_map(index)
            files = sorted(set(promised.values()))
        for path in [inside(index, name) for name in files]:
            self._open(path)
        for stored, file in promised.items():
            name = self._now(stored)
            if name not in self._home or self._home[name][0].name != file:
                raise ValueError(f"{index} says that {stored} is in {file}, but it is not there; copy the folder again")

    def include(self, folder: Path, name: str) -> None:
        """Add the tensors of another folder's file, under names that begin with `name` and a full stop."""
        self._open(inside(folder / INDEX, WHOLE), f"{name}.")

    @property
    def names(self) -> frozenset[str]:
        """Of all tensors."""
        return frozenset(self._home)

    def read(self, name: str) -> Tensor:
        """One tensor, as stored. Raises ValueError for a type that torch does not know."""
        path, stored = self._home[name]
        try:
            # A mapping of its own, so that the pages of a tensor that is converted go with it.
            with safe_open(path, framework="pt") as handle:
                return handle.get_tensor(stored)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{name} in {path} cannot be read: {error}; copy or save the model again") from error

    def _open(self, path: Path, before: str = "") -> None:
        try:
            with safe_open(path, framework="pt") as handle:
                found: list[str] = list(handle.keys())
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is damaged: {error}; copy or save the model again") from error
        _check_header(path)
        for stored in found:
            name = before + self._now(stored)
            if name in self._home:
                raise ValueError(f"{name} is in {self._home[name][0].name} and in {path.name}; it must be in one file")
            self._home[name] = (path, stored)

    def _now(self, stored: str) -> str:
        for old, new in self._older.items():
            if stored.endswith(old):
                return stored.removesuffix(old) + new
        return stored


def _check_header(path: Path) -> None:
    """ValueError for a name that stands twice, of which the safetensors library takes the last without a word."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path} is damaged: {twice!r} is there twice; copy or save the model again")
        return dict(pairs)

    with path.open("rb") as file:
        json.loads(file.read(int.from_bytes(file.read(8), "little")), object_pairs_hook=once)


def weight_map(index: Path) -> dict[str, str]:
    """Which shard holds each tensor."""
    listed = read_json(index).get("weight_map")
    if not isinstance(listed, dict) or not listed or not all(isinstance(file, str) for file in _values(listed)):
        raise ValueError(f"{index} has no weight_map of tensor names to file names; copy the folder again")
    return listed


def _values(listed: Any) -> Iterator[object]:
    yield from listed.values()


def inside(index: Path, name: str, ending: str = ".safetensors") -> Path:
    """The file `name` beside an index. No path, and no link that leads out, except into the blobs of a hub's cache."""
    folder = index.parent
    if Path(name).name != name or "\\" in name or not name.endswith(ending):
        raise ValueError(f"{index} names the shard {name!r}; shards are plain {ending} files in the folder")
    path, root = folder / name, folder.resolve()
    if not path.is_file():
        raise ValueError(f"{path} is missing; is {folder} a complete model folder?")
    cache = root.parent.parent / "blobs" if root.parent.name == "snapshots" else root
    if path.resolve().parent not in (root, cache):
        raise ValueError(f"{path} is a link out of the folder, to {path.resolve()}; put the file itself there")
    return path
