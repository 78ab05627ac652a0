"""What can be said of texts before any model sees them: bytes that are no text, empty and doubled rows, leaks."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from clearhead.train.data.files import Texts
from clearhead.train.data.rows import Row, kind, opened

RATIO = 4  # times as long as the other side: hardly a translation
SHORT = 10  # characters; ratios and doubles of shorter texts mean nothing
LEAK = 0.01  # of the validation rows; more than that and its score says too much
SEPARATORS = {"\u2028": "U+2028", "\u2029": "U+2029", "\x0b": "VT", "\x0c": "FF", "\x85": "NEL", "\r": "CR"}


class Finding(NamedTuple):
    """Something to know, or (a fault) something to mend first."""

    level: Literal["fault", "note"]
    what: str


def examine_bytes(names: Iterable[str]) -> Iterator[Finding]:
    """What is wrong with files as text. Lines end at newlines only, here as in training."""
    for path in map(Path, names):
        if path.is_file() and kind(path) != ".parquet":
            yield from _lines(path)


def _lines(path: Path) -> Iterator[Finding]:
    """One pass over the bytes; what is found is named with its first line."""
    seen: dict[str, list[int]] = {}  # what: how many lines, the first

    def note(what: str, number: int) -> None:
        seen.setdefault(what, [0, number])[0] += 1

    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode().removesuffix("\n").removesuffix("\r")
            except UnicodeDecodeError:
                note("bytes that are not UTF-8", number)
                continue
            for separator, name in SEPARATORS.items():
                if separator in line:
                    note(name, number)
            if "\ufffd" in line:
                note("U+FFFD", number)
            if "\x00" in line:
                note("NUL", number)
    for what, (count, first) in seen.items():
        where = f"{path}: {_counted(count, 'line')} (the first is {first}) hold{'s' if count == 1 else ''} {what}"
        if what == "bytes that are not UTF-8":
            yield Finding("fault", f"{where}; convert the file first, such as with iconv -f latin1 -t utf8")
        elif what in ("U+FFFD", "NUL"):
            yield Finding("note", f"{where}, which an earlier conversion left in place of a character")
        else:
            yield Finding("note", f"{where}, at which other tools end a line; here only newlines do")


@dataclass
class Counts:
    """Of the rows that are trained on and of those that are kept."""

    rows: int = 0
    kept: int = 0
    characters: int = 0
    empty: list[int] = field(default_factory=list[int])  # the rows without a text on some side, from 1
    uneven: list[int] = field(default_factory=list[int])  # pairs of very different length
    copied: int = 0  # pairs whose two sides are the same
    doubled: int = 0  # rows, or lines of running text, that are there before
    leaked: int = 0  # of those kept, the ones that are trained on too
    checked: int = 0  # of those kept, the ones that could be

    def facts(self, running: bool, pairs: bool) -> dict[str, int]:
        """As numbers, those that mean something: running text has no rows."""
        of_rows = {"rows": self.rows, "kept": self.kept, "empty": len(self.empty)}
        of_pairs = {"uneven": len(self.uneven), "copied": self.copied}
        always = {"characters": self.characters, "doubled": self.doubled, "leaked": self.leaked}
        return ({} if running else of_rows) | (of_pairs if pairs else {}) | always


def examine_rows(texts: Texts, pairs: bool = True) -> Counts:
    """One pass over all rows, pairs or texts with labels. What is the same is known by a digest of eight bytes each."""
    counts, known = Counts(), set[bytes]()
    running = texts.train.rows.running
    for number, row in enumerate(texts.train, 1):
        counts.rows += 1
        counts.characters += sum(map(len, row.texts))
        _examine(row, number, counts, pairs)
        for mark in _marks(row, running):
            counts.doubled += mark in known
            known.add(mark)
    for row in texts.validation:
        counts.kept += 1
        for mark in _marks(row, running):
            counts.checked += 1
            counts.leaked += mark in known
    return counts


def _examine(row: Row, number: int, counts: Counts, pairs: bool) -> None:
    lengths = [len(text.strip()) for text in row.texts]
    if not min(lengths):
        counts.empty.append(number)
    elif len(lengths) == 2 and pairs:
        counts.copied += row.texts[0].strip() == row.texts[1].strip() and lengths[0] > SHORT
        if max(lengths) > max(RATIO * min(lengths), SHORT):
            counts.uneven.append(number)


def _marks(row: Row, running: bool) -> Iterator[bytes]:
    """Of a row, or of each line of running text that is long enough to say something."""
    whole = row.texts[0].split("\n") if running else ["\0".join(row.texts)]
    for text in whole:
        if len(text) > SHORT:
            yield hashlib.blake2b(text.strip().encode(), digest_size=8).digest()


def told(counts: Counts, running: bool) -> Iterator[Finding]:
    """What is worth saying of them."""
    unit = "line" if running else "row"
    if counts.empty and not running:
        empty = f"{_counted(len(counts.empty), 'row')} without a text on some side ({_first(counts.empty)})"
        yield Finding("fault", f"{empty}; take them out")
    if counts.uneven:
        uneven = f"{_counted(len(counts.uneven), 'pair')} with one side more than {RATIO} times as long as the other"
        yield Finding("note", f"{uneven} ({_first(counts.uneven)})")
    if counts.copied:
        yield Finding("note", f"{_counted(counts.copied, 'pair')} with the same text on both sides")
    if counts.doubled:
        yield Finding("note", f"{_counted(counts.doubled, unit)} to train on that stood there before, word for word")
    if counts.leaked:
        level = "fault" if counts.leaked > LEAK * counts.checked and not running else "note"
        mend = "; take them out of one of the two" if level == "fault" else ""
        share = f"{counts.leaked:,} of {_counted(counts.checked, unit)}"
        yield Finding(level, f"{share} kept for validation are also trained on, so that its loss looks too good{mend}")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _first(numbers: list[int]) -> str:
    return (
        ("row " if len(numbers) == 1 else "rows ")
        + ", ".join(map(str, numbers[:3]))
        + (", ..." if len(numbers) > 3 else "")
    )
