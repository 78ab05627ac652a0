"""Rows of ids in memory-mapped Arrow files: made once, from then on read without being held in memory."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.rows import Row

Numbers = NDArray[np.int64]
TOGETHER, SIZE = 1000, 1 << 22  # rows that become ids at once, or characters
FORMAT = 1  # of what is stored: another number, and nothing old is read


class Ids:
    """Rows of ids one after the other, so that they can also be read as one long row."""

    def __init__(self, parts: Sequence[NDArray[np.integer[Any]]], lengths: Numbers) -> None:
        """parts: all ids, in arrays of any length. lengths [N]: of the rows."""
        self.lengths, self._parts = lengths, parts
        self.starts: Numbers = np.concatenate([[0], np.cumsum(lengths)])
        self._first: Numbers = np.cumsum([0, *map(len, parts)])  # the place of each part's first id

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | NDArray[np.integer[Any]]]) -> "Ids":
        """Rows that are in memory already."""
        flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
        return cls([flat], np.array([len(row) for row in rows], dtype=np.int64))

    @property
    def total(self) -> int:
        """Of all ids."""
        return int(self.starts[-1])

    @property
    def largest(self) -> int:
        """The largest id; -1 if there is none."""
        return max((int(part.max()) for part in self._parts if len(part)), default=-1)

    def count(self, value: int) -> int:
        """How often an id is there."""
        return sum(int((part == value).sum()) for part in self._parts)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Numbers:
        return self.span(int(self.starts[row]), int(self.lengths[row]))

    def span(self, start: int, length: int) -> Numbers:
        """So many ids from a place in the long row on."""
        found: list[Numbers] = []
        part = int(np.searchsorted(self._first, start, side="right")) - 1
        while length > 0:
            at = start - int(self._first[part])
            piece = self._parts[part][at : at + length].astype(np.int64)
            found.append(piece)
            start, length, part = start + len(piece), length - len(piece), part + 1
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])


class Stored:
    """Columns of ids, and what each row took of the text."""

    def __init__(self, columns: dict[str, Ids], begins: NDArray[np.bool_], text_bytes: Numbers) -> None:
        """begins [N]: the row begins a document. text_bytes [N]: of UTF-8, of what is to be predicted."""
        self.columns, self.begins, self.text_bytes = columns, begins, text_bytes


def in_groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows that become ids at once."""
    held, size = list[Row](), 0
    for row in rows:
        held.append(row)
        size += sum(map(len, row.texts))
        if len(held) == TOGETHER or size >= SIZE:
            yield held
            held, size = [], 0
    if held:
        yield held


def store(groups: Iterable[Stored], names: Sequence[str], file: Path) -> None:
    """Write an Arrow file, which is there as a whole or not at all."""
    import pyarrow
    from datasets import Features, List, Value
    from datasets.arrow_writer import ArrowWriter

    form = {name: List(Value("int32")) for name in names} | {"begins": Value("bool"), "bytes": Value("int64")}
    fresh = file.with_name(f".{file.name}.{uuid4().hex}")  # another machine may be writing the same
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with ArrowWriter(path=str(fresh), features=Features(form)) as writer:
            for group in groups:
                rows = {name: _listed(ids) for name, ids in group.columns.items()}
                writer.write_table(pyarrow.table({**rows, "begins": group.begins, "bytes": group.text_bytes}))
            writer.finalize()
        os.replace(fresh, file)
    except OSError as error:
        raise ValueError(
            f"{file} could not be written: {error.strerror}; make room, or name another data.cache"
        ) from error
    finally:
        if fresh.exists():
            fresh.unlink()


def _listed(ids: Ids) -> Any:
    """As an Arrow array of lists."""
    import pyarrow

    flat = ids.span(0, ids.total).astype(np.int32)
    return pyarrow.ListArray.from_arrays(ids.starts.astype(np.int32), flat)


def stored(file: Path, names: Sequence[str]) -> Stored:
    """What `store` wrote, mapped into memory."""
    from datasets import Dataset

    table: Any = Dataset.from_file(str(file)).data

    def ids(name: str) -> Ids:
        chunks = table.column(name).chunks
        parts = [chunk.flatten().to_numpy(zero_copy_only=True) for chunk in chunks]
        lengths = [np.diff(chunk.offsets.to_numpy()).astype(np.int64) for chunk in chunks]
        return Ids(parts, np.concatenate([np.empty(0, np.int64), *lengths]))

    begins, sizes = (table.column(name).to_numpy() for name in ("begins", "bytes"))
    return Stored({name: ids(name) for name in names}, begins, sizes)


def key_of(tokenizer: Tokenizer | Pair, *said: object) -> str:
    """A name for what comes of this tokenizer and all that is said besides."""
    found = hashlib.sha256(repr((FORMAT, *said)).encode())
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        for file in sorted(Path(folder).rglob("*")):
            found.update(file.read_bytes() if file.is_file() else b"")
    return found.hexdigest()[:32]
