"""Files, or a data set of the hub, as rows of text that can be read again and again without being held in memory.

Lines end at newlines only: U+2028, NEL, form feed and others stand inside sentences. No file of ours uses the network.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

from clearhead.train.data.rows import TABLES, Row, kind, lines, picked, table
from clearhead.train.recipe import Recipe, Source

VALIDATION = 20  # one part in so many
HELD, HELD_CHARACTERS = 1000, 1_000_000  # rows, or characters of running text, that a stream keeps for validation
NO_FILE = os.strerror(errno.ENOENT)
MANY = 1 << 40  # what is said of the size of a stream
CHUNK = 1 << 16  # characters of a running text that become ids as one text; several at once keep processors busy


@dataclass(frozen=True)
class Rows:
    """What stands in some files."""

    read: Callable[[], Iterator[Row]]
    digest: str  # of all bytes, or what names a data set of the hub
    running: bool  # text whose rows are stretches of any length, to be divided by characters; else by rows
    resume: Callable[[Any], tuple[Iterator[Row], Callable[[], Any]]] | None = None  # rows from a state, and its reader

    def __iter__(self) -> Iterator[Row]:
        return self.read()


@dataclass(frozen=True)
class Part:
    """Rows from `start` on, up to `stop`, both counted in rows, or in characters of running text.

    A text that goes on from before `start` begins here.
    """

    rows: Rows
    start: int = 0
    stop: int | None = None
    passed: int = 0  # rows that were read before these, where a stream is gone on with

    @property
    def number(self) -> int:
        """Rows before the first, by which an error names one."""
        return self.start + self.passed

    def __iter__(self) -> Iterator[Row]:
        if not self.rows.running:
            yield from islice(self.rows, self.start, self.stop)
            return
        at, first = 0, self.start > 0
        for row in self.rows:
            (text,) = row.texts
            begin = max(self.start - at, 0)
            end = len(text) if self.stop is None else min(self.stop - at, len(text))
            if begin < end:
                yield Row((text[begin:end],), row.begins or first, row.ends and end == len(text))
                first = False
            if self.stop is not None and at >= self.stop:
                return
            at += len(text)


class Texts(NamedTuple):
    """What is trained on, what is kept, and how much the former is."""

    train: Part
    validation: Part
    rows: int  # of all that is there
    characters: int

    @property
    def digest(self) -> str:
        """Changes when the data do."""
        both = (self.train.rows.digest, self.validation.rows.digest)
        return both[0] if both[0] == both[1] else "-".join(both)


def cut(length: int) -> int:
    """How many of so many examples are trained on."""
    return length - max(length // VALIDATION, 1)


def texts_of(recipe: Recipe) -> Texts:
    """A recipe's texts, without torch, whose import takes seconds; see `read_texts`."""
    label = recipe.data.label or "label" if recipe.task == "classify" else None
    return read_texts(replace(recipe.data, label=label), recipe.task == "translate")


def read_texts(source: Source, pairs: bool) -> Texts:
    """What stands in the recipe's files; without files for validation, the last 5 % are kept for it.

    A stream, whose end nobody knows, keeps its first rows. Raises ValueError for files that are missing, empty or not
    in UTF-8, and for pairs that do not match.
    """
    rows = open_rows(source.train, source, pairs)
    kept = None
    if source.validation or source.validation_split is not None:
        split = source.validation_split or source.split
        kept = open_rows(source.validation or source.train, source, pairs, split)
    if source.stream:
        held = 0 if kept is not None else HELD_CHARACTERS if rows.running else HELD
        return Texts(Part(rows, held), Part(kept or rows, 0, None if kept else held), MANY, MANY)
    name = ", ".join(source.train)
    count, characters = counted(rows, name)
    if kept is not None:
        counted(kept, ", ".join(source.validation) or f"{name} ({source.validation_split})")
        return Texts(Part(rows), Part(kept), count, characters)
    length = characters if rows.running else count
    if length < 2:
        what = ("character", "text", "line")[0 if rows.running else 1 + pairs]
        raise ValueError(f"{name} has {length} {what}; training and validation need at least 2")
    at = cut(length)
    return Texts(Part(rows, 0, at), Part(rows, at), count, characters)


def counted(rows: Rows, name: str) -> tuple[int, int]:
    """Rows and characters, after reading all once."""
    count, characters, filled = 0, 0, False
    for row in rows:
        count += 1
        characters += sum(map(len, row.texts))
        filled = filled or any(text.strip() for text in row.texts)
    if not filled:
        raise ValueError(f"{name} is empty; give some text")
    return count, characters


def open_rows(names: tuple[str, ...], source: Source, pairs: bool, split: str = "train") -> Rows:
    """The rows of these files or this data set; pairs: of sources and targets.

    Raises ValueError for no name at all, for files that are missing, and for a wrong number of them. What is wrong
    inside them is found when they are read.
    """
    if not names:
        raise ValueError("data.train is empty; name a file, or a data set of the hub such as owner/name")
    paths = [Path(name) for name in names]
    if len(paths) == 1 and not paths[0].exists() and _on_hub(names[0]):
        return _hub(names[0], source, pairs, split)
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} cannot be read: {'Is a directory' if path.is_dir() else NO_FILE}; give a file")
    tables = [kind(path) in TABLES for path in paths]
    digest = digest_of(paths)
    if all(tables):
        return Rows(lambda: (row for path in paths for row in table(path, source, pairs)), digest, False)
    if any(tables):
        raise ValueError(f"{paths[tables.index(True)]} is a table, {paths[tables.index(False)]} is not; give one kind")
    if source.label is not None:
        raise ValueError(f"{paths[0]} is no table; give one with columns for texts and labels, such as .tsv or .jsonl")
    if not pairs:
        return Rows(lambda: (row for path in paths for row in _running(path, path is not paths[-1])), digest, True)
    if len(paths) != 2:
        raise ValueError(f"{len(paths)} text files are given; a translator needs 2, whose lines belong together")
    return Rows(lambda: _lines_of_both(*paths), digest, False)


def _on_hub(name: str) -> bool:
    """owner/name, and nothing that looks like a file."""
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not Path(name).suffix


def digest_of(paths: list[Path]) -> str:
    """What changes when the files' bytes do."""
    found = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:16]


def _running(path: Path, ends: bool) -> Iterator[Row]:
    """A text in stretches of whole lines; the end of the last line is not part of it. ends: another text follows."""
    held, size, begins, first = list[str](), 0, True, True
    for line in lines(path):
        if not first:
            held.append("\n")
            if size >= CHUNK:
                yield Row(("".join(held),), begins, False)
                held, size, begins = [], 0, False
        first = False
        held.append(line)
        size += len(line) + 1
    if text := "".join(held):
        yield Row((text,), begins, ends)


def _lines_of_both(source: Path, target: Path) -> Iterator[Row]:
    left = [0, 0]  # lines
    for pair in zip_longest(lines(source), lines(target)):
        left = [n + (text is not None) for n, text in zip(left, pair, strict=True)]
        if left[0] == left[1]:
            yield Row(cast(tuple[str, str], pair))
    if left[0] != left[1]:
        raise ValueError(
            f"{source} has {left[0]} lines but {target} has {left[1]}; line n of one translates line n of the other"
        )


def _hub(name: str, source: Source, pairs: bool, split: str) -> Rows:
    import datasets

    try:
        found: Any = datasets.load_dataset(name, source.subset, split=split, streaming=source.stream)
    except Exception as error:  # the library raises many kinds
        raise ValueError(f"{name} is no file here, and cannot be had from the hub: {error}") from error

    def resume(state: Any) -> tuple[Iterator[Row], Callable[[], Any]]:
        own = deepcopy(found)  # what others read at the same time must not move its state
        if state is not None:
            own.load_state_dict(state)
        return (picked(row, source, pairs) for row in own), own.state_dict

    which = f"{name} {source.subset} {split} {getattr(found, '_fingerprint', '')}"
    digest = hashlib.sha256(which.encode()).hexdigest()[:16]
    again = resume if source.stream else None
    return Rows(lambda: (picked(row, source, pairs) for row in found), digest, False, again)
