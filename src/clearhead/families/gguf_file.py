"""A GGUF file: its settings, and its tensors one at a time, memory-mapped and dequantised when they are read.

Magic, version, two counts; that many settings; that many descriptions of tensors; then the data, aligned
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Arrays are skipped on opening and parsed when asked for: a
vocabulary holds hundreds of thousands of strings.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
VERSIONS, DIMENSIONS = (2, 3), 4
CHUNK = 2**18  # numbers that are dequantised at once, so that little is held besides the result


class Array(NamedTuple):
    """Where the values of an array stand in the file."""

    kind: int
    length: int
    start: int


class Stored(NamedTuple):
    """Where a tensor stands in the file, and how it is packed: `size` bytes hold `block` numbers."""

    kind: int
    shape: tuple[int, ...]
    start: int
    block: int
    size: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) // self.block * self.size


class Cursor:
    """A place in the bytes of a file; every step checks that the file goes on that far."""

    def __init__(self, path: Path, data: mmap.mmap, at: int = 0) -> None:
        self.path, self.data, self.at = path, data, at

    def number(self, code: str) -> Any:
        start, form = self.at, "<" + code
        self.skip(struct.calcsize(form))
        (value,) = struct.unpack_from(form, self.data, start)
        # 1e-5 is stored as 9.99999974e-06; the shortest decimal that gives the same bits is what was meant
        return float(str(np.float32(value))) if code == "f" else value

    def text(self) -> str:
        start = self.skip(self.number("Q"))
        try:
            return self.data[start : self.at].decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path} is damaged: a string at byte {start} is not UTF-8; copy it again") from error

    def value(self) -> Any:
        """A setting: a number, a string, or where an array stands."""
        kind = self.number("I")
        if kind == ARRAY:
            return self._array()
        return self._one(kind)

    def skip(self, count: int) -> int:
        """Past `count` bytes; gives where they start."""
        start = self.at
        if count > len(self.data) - start:
            raise ValueError(f"{self.path} is damaged: it ends at byte {len(self.data)}, before its header does")
        self.at = start + count
        return start

    def values(self, array: Array) -> Iterator[Any]:
        """What an array holds."""
        self.at = array.start
        if array.kind in NUMBERS:
            return iter(struct.unpack_from(f"<{array.length}{NUMBERS[array.kind]}", self.data, array.start))
        return (self.text() for _ in range(array.length))

    def _one(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind not in NUMBERS:
            raise ValueError(f"{self.path} is damaged: a setting before byte {self.at} has the unknown type {kind}")
        return self.number(NUMBERS[kind])

    def _array(self) -> Array:
        kind, count = self.number("I"), self.number("Q")
        found = Array(kind, count, self.at)
        if kind in NUMBERS:
            self.skip(count * struct.calcsize("<" + NUMBERS[kind]))
        elif kind == STRING:
            self.skip(self._strings(count) - self.at)
        else:
            raise ValueError(f"{self.path} holds an array of the unknown type {kind}")
        return found

    def _strings(self, count: int) -> int:
        """Where so many strings end. A loop of its own, as there are hundreds of thousands."""
        length, data, at, last = struct.Struct("<Q").unpack_from, self.data, self.at, len(self.data) - 8
        for _ in range(count):
            if at > last:
                return len(data) + 1
            at += 8 + length(data, at)[0]
        return at


class GgufFile:
    """`settings` by key and `tensors` by name, as the file has them; `array` and `read` give their contents.

    Raises ValueError, naming the file, for one that is missing, damaged or of another version, for one part of several,
    and for a packing that the `gguf` package does not know. Nothing is allocated by a size that stands in the file
    before it is known that the file is that large.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise ValueError(f"{path} is not a file; give a .gguf file or the folder of a model")
        self._blocks = Packings(path)
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ValueError(f"{path} is no GGUF file: it does not begin with GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                cursor = Cursor(path, data, 4)
                self._open(cursor)

    def array(self, key: str) -> list[Any]:
        """The values of an array. Raises ValueError if there is none under this name."""
        found = self.settings.get(key)
        if not isinstance(found, Array):
            raise ValueError(f"{self.path} has no list {key}")
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return list(Cursor(self.path, data).values(found))

    def read(self, name: str, dtype: torch.dtype = torch.float32) -> Tensor:
        """One tensor. Its bytes are mapped for this call only, so that they do not add up in memory."""
        stored = self.tensors[name]
        data = np.memmap(self.path, np.uint8, "r", stored.start, (stored.bytes // stored.size, stored.size))
        made = torch.empty(stored.shape, dtype=dtype)
        flat, step = made.view(-1), max(1, CHUNK // stored.block)
        for first in range(0, len(data), step):
            numbers = self._blocks.unpack(stored.kind, np.array(data[first : first + step]))
            flat[first * stored.block :][: len(numbers)] = torch.from_numpy(numbers)
        return made

    def _open(self, cursor: Cursor) -> None:
        version = cursor.number("I")
        if version not in VERSIONS:
            raise ValueError(f"{self.path} is GGUF of version {version}; versions 2 and 3, little-endian, can be read")
        tensors, settings = cursor.number("Q"), cursor.number("Q")
        self.settings: Mapping[str, Any] = self._once((cursor.text(), cursor.value()) for _ in range(settings))
        if (parts := self.settings.get("split.count", 0)) not in (0, 1):
            raise ValueError(f"{self.path} is one of {parts} parts; merge them first")
        found = self._once(self._description(cursor) for _ in range(tensors))
        step = self.settings.get("general.alignment", 32)
        if not isinstance(step, int) or step < 1:
            raise ValueError(f"{self.path} is damaged: general.alignment is {step!r}")
        data = -(-cursor.at // step) * step
        self.tensors = {name: one._replace(start=data + one.start) for name, one in found.items()}
        for name, one in self.tensors.items():
            if one.start + one.bytes > len(cursor.data):
                raise ValueError(
                    f"{self.path} is damaged: {name} goes to byte {one.start + one.bytes}, but the file has "
                    f"{len(cursor.data)}; copy it again"
                )

    def _description(self, cursor: Cursor) -> tuple[str, Stored]:
        name, count = cursor.text(), cursor.number("I")
        if not 1 <= count <= DIMENSIONS:
            raise ValueError(f"{self.path} is damaged: {name} has {count} dimensions")
        sizes = [cursor.number("Q") for _ in range(count)]
        kind, start = cursor.number("I"), cursor.number("Q")
        block, size = self._blocks.sizes(kind, name)
        if 0 in sizes or sizes[0] % block:
            raise ValueError(f"{self.path} is damaged: {name} is {sizes}, not in blocks of {block}")
        return name, Stored(kind, tuple(reversed(sizes)), start, block, size)

    def _once(self, pairs: Iterator[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"{self.path} is damaged: {name!r} is there twice")
            found[name] = value
        return found


class Packings:
    """How numbers are packed, from the `gguf` package. Raises ValueError if that is not installed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        package()
        self._known: dict[int, tuple[int, int]] = {}

    def sizes(self, kind: int, name: str) -> tuple[int, int]:
        """(numbers, bytes) of a block. Raises ValueError for a packing that cannot be undone."""
        if kind not in self._known:
            try:
                block, size = package().GGML_QUANT_SIZES[package().GGMLQuantizationType(kind)]
                self.unpack(kind, np.zeros((1, size), np.uint8))
            except (ValueError, NotImplementedError) as error:
                raise ValueError(f"{self.path} packs {name} in a way that cannot be read (type {kind})") from error
            self._known[kind] = block, size
        return self._known[kind]

    def unpack(self, kind: int, blocks: Any) -> Any:
        """The numbers, in a row, of blocks [count, bytes]."""
        form = package().GGMLQuantizationType(kind)
        return package().quants.dequantize(blocks.reshape(1, -1), form).ravel()


def package() -> ModuleType:
    try:
        import gguf
    except ImportError as error:
        raise ValueError("GGUF files are read by the gguf package, which is not installed: pip install gguf") from error
    return gguf
