"""Rows of text out of a line, or of a row of a table: .jsonl, .csv, .tsv and .parquet, each also .gz but the last."""

import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from clearhead.train.recipe import Source


class Row(NamedTuple):
    """A text, or a source and its target."""

    texts: tuple[str, ...]
    begins: bool = True  # a document; False: it goes on with the row before
    ends: bool = True  # a document, and the model is to learn that it does


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends: newlines only, and a carriage return in front of one.

    Raises ValueError, naming the file and the line, for other bytes.
    """
    number = 0
    try:
        with opened(path) as file:
            for number, raw in enumerate(file, 1):
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: line {number}: {error.reason} at byte {error.start}") from error
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def opened(path: Path) -> Any:
    """A file's bytes, unpacked."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def kind(path: Path) -> str:
    """The suffix that says what a file holds."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def table(path: Path, source: Source, pairs: bool) -> Iterator[Row]:
    """The rows of a table. Raises ValueError, naming the file and the row, for one without the columns."""
    for number, row in TABLES[kind(path)](path, source, pairs):
        try:
            yield picked(row, source, pairs)
        except ValueError as error:
            raise ValueError(f"{path}: row {number}: {error}") from error


Named = Iterator[tuple[int, dict[str, Any]]]  # rows by their number, from 1


def _jsonl(path: Path, source: Source, pairs: bool) -> Named:
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}: row {number} is not JSON ({error})") from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}: row {number} is {line[:40]!r}; expected an object such as {{'text': '...'}}")
            yield number, cast(dict[str, Any], row)


def _csv(path: Path, source: Source, pairs: bool) -> Named:
    """Its first line names the columns."""
    csv.field_size_limit(sys.maxsize)
    reader = csv.DictReader((line + "\n" for line in lines(path)), strict=True, restkey="", restval="")
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise ValueError(f"{path}: at line {reader.line_num} there is no row of a CSV file: {error}") from error


def _tsv(path: Path, source: Source, pairs: bool) -> Named:
    """Its first line may name the columns, if they are asked for; without them the first are taken. No quotes."""
    plain = [source.text] if source.label is None else [source.text, source.label]
    asked = {source.source, source.target} - {None} if pairs else {*plain}
    names: list[str] | None = None
    for number, line in enumerate(lines(path), 1):
        row = line.split("\t")
        if names is None:
            named = bool(asked) and asked <= set(row)
            plain = ["source", "target"] if pairs and not asked else plain
            names = row if named else [*plain, *map(str, range(len(plain) + 1, len(row) + 1))]
            if named:
                continue
        if line:
            yield number, dict(zip(names, row, strict=False))


def _parquet(path: Path, source: Source, pairs: bool) -> Named:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        batches = ParquetFile(path).iter_batches(1000)
    except (ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from error
    yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)


TABLES: dict[str, Callable[[Path, Source, bool], Named]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _tsv,
    ".parquet": _parquet,
}


def picked(row: dict[str, Any], source: Source, pairs: bool) -> Row:
    """The columns asked for; of pairs else the first two, or the first two of the column `translation`."""
    if source.label is not None:
        return Row((_column(row, source.text, "data.text"), _label(row, source.label)))
    if not pairs:
        return Row((_column(row, source.text, "data.text"),))
    inner = row.get("translation")
    if source.source is None and source.target is None and isinstance(inner, dict):
        row = cast(dict[str, Any], inner)
    if len(row) < 2:
        raise ValueError(f"it has {len(row)} columns ({', '.join(row)}); a translator needs 2")
    first, second = islice(row, 2)
    names = (source.source or first, source.target or second)
    return Row(
        tuple(_column(row, name, f"data.{side}") for name, side in zip(names, ("source", "target"), strict=True))
    )


def _column(row: dict[str, Any], name: str, field: str) -> str:
    """A text."""
    value = _value(row, name, field)
    if not isinstance(value, str):
        raise ValueError(f"its {name} is {value!r}, which is no text; name another column as {field}")
    return value


def _label(row: dict[str, Any], name: str) -> str:
    """A word, or a whole number."""
    value = _value(row, name, "data.label")
    if not isinstance(value, str | int) or value == "":
        raise ValueError(f"its {name} is {value!r}; a label is a word or a whole number, name another column")
    return str(value)


def _value(row: dict[str, Any], name: str, field: str) -> Any:
    """A dot leads into a column of columns, unless a column is called so."""
    value: Any = row
    for key in [name] if name in row else name.split("."):
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"it has no column {name!r}, but {', '.join(row)}; name one of these as {field}")
        value = cast(dict[str, Any], value)[key]
    return value
