"""Files to rows: every form, newlines only, nothing silently dropped, what is kept is never trained on."""

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from clearhead.train.data import files
from clearhead.train.data.files import Part, Rows, cut, open_rows, read_texts
from clearhead.train.data.rows import Row
from clearhead.train.recipe import Source

STRANGE = "one\u2028two\x85three\x0bfour\rfive"


def rows(source: Source, pairs: bool = False) -> list[tuple[str, ...]]:
    return [row.texts for row in open_rows(source.train, source, pairs)]


def written(folder: Path, name: str, content: str | bytes) -> str:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


def test_a_running_text_comes_back_and_is_cut_by_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(f"{STRANGE} {i}" for i in range(50))
    file = written(tmp_path, "a.txt", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n")
    for chunk in (1 << 16, 100, 1):
        monkeypatch.setattr(files, "CHUNK", chunk)
        found = list(open_rows((file,), Source(), False))
        assert "".join(row.texts[0] for row in found) == text
        assert [row.begins for row in found] == [True] + [False] * (len(found) - 1)
        texts = read_texts(Source(train=(file,)), False)
        train, kept = ("".join(row.texts[0] for row in part) for part in (texts.train, texts.validation))
        assert train + kept == text
        assert len(train) == cut(len(text))
        assert next(iter(texts.validation)).begins
        assert texts.characters == len(text)


def test_the_last_twentieth_is_kept() -> None:
    assert [cut(n) for n in (2, 19, 20, 40, 1000)] == [1, 18, 19, 38, 950]


def test_several_texts_are_documents_of_which_the_last_has_no_end(tmp_path: Path) -> None:
    names = tuple(written(tmp_path, name, f"text {name}") for name in "abc")
    found = [(row.texts[0], row.begins, row.ends) for row in open_rows(names, Source(), False)]
    assert found == [("text a", True, True), ("text b", True, True), ("text c", True, False)]
    part = list(Part(open_rows(names, Source(), False), 3, 9))
    assert [(row.texts[0], row.begins, row.ends) for row in part] == [("t a", True, True), ("tex", True, False)]


def test_rows_that_others_went_before_begin_no_text_and_keep_their_numbers() -> None:
    rows = Rows(lambda: iter([Row(("on",), False), Row(("new",))]), "", True)
    assert [row.begins for row in Part(rows, passed=3)] == [False, True]
    assert [row.begins for row in Part(rows, 1)] == [True, True]
    assert (Part(rows, passed=3).number, Part(rows, 1).number) == (3, 1)


def test_trn_11_lines_end_at_newlines_only_and_must_be_as_many(tmp_path: Path) -> None:
    a = written(tmp_path, "a", f"{STRANGE}\nfour\n")
    b = written(tmp_path, "b", "eins\nvier\n")
    assert rows(Source(train=(a, b)), True) == [(STRANGE, "eins"), ("four", "vier")]
    b = written(tmp_path, "b", "eins\nvier\nsechs\n")
    with pytest.raises(ValueError, match=r"a has 2 lines but .*b has 3; line n of one translates line n of"):
        read_texts(Source(train=(a, b)), True)


def test_every_form_of_a_table_gives_the_same_pairs(tmp_path: Path) -> None:
    wanted = [(STRANGE.replace("\r", ""), "eins, zwei"), ("three", 'a "b"')]
    plain = [{"en": en, "de": de, "n": 3} for en, de in wanted]
    lines = "".join(json.dumps(row) + "\n" for row in plain)
    nested = "".join(json.dumps({"id": 1, "translation": row}) + "\n\n" for row in plain)
    tsv = "".join("\t".join(pair) + "\n" for pair in wanted)
    names = {
        "plain.jsonl": lines,
        "nested.jsonl": nested,
        "none.tsv": tsv,
        "quoted.csv": 'en,de\n"' + wanted[0][0] + '","eins, zwei"\nthree,"a ""b"""\n',
        "small.jsonl.gz": gzip.compress(lines.encode()),
    }
    for name, content in names.items():
        assert rows(Source(train=(written(tmp_path, name, content),)), True) == wanted, name
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(plain), tmp_path / "t.parquet")
    assert rows(Source(train=(str(tmp_path / "t.parquet"),)), True) == wanted
    named = written(tmp_path, "named.tsv", "de\ten\n" + "".join(f"{de}\t{en}\n" for en, de in wanted))
    for source in (
        Source(train=(named,), source="en", target="de"),
        Source(train=(str(tmp_path / "nested.jsonl"),), source="translation.en", target="translation.de"),
    ):
        assert rows(source, True) == wanted


def test_documents_of_a_table_are_cut_by_rows(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", "".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(40)))
    texts = read_texts(Source(train=(file,)), False)
    assert [len(list(part)) for part in (texts.train, texts.validation)] == [38, 2]
    assert [row.texts[0] for row in texts.validation] == ["text 38", "text 39"]
    other = written(tmp_path, "b.csv", "n,text\n1,kept\n")
    texts = read_texts(Source(train=(file,), validation=(other,)), False)
    assert [len(list(part)) for part in (texts.train, texts.validation)] == [40, 1]


@pytest.mark.parametrize(
    ("name", "content", "pairs", "sentence"),
    [
        ("nowhere", None, False, "nowhere cannot be read: No such file or directory; give a file"),
        ("a.txt", "\n \n", False, r"a.txt is empty; give some text"),
        ("a.txt", "x", False, "a.txt has 1 character; training and validation need at least 2"),
        ("a.tsv", "x\ty\n", True, "a.tsv has 1 line; training and validation need at least 2"),
        ("a.txt", b"gut\nf\xfcr\n", False, r"a.txt is not UTF-8: line 2: invalid start byte at byte 1"),
        ("a.txt", "x\ny\n", True, "1 text files are given; a translator needs 2"),
        ("a.jsonl", "{", False, "a.jsonl: row 1 is not JSON"),
        ("a.jsonl", "[1]", False, r"a.jsonl: row 1 is '\[1\]'; expected an object"),
        ("a.jsonl", '{"texts": "a"}', False, "a.jsonl: row 1: it has no column 'text', but texts; name one of these"),
        ("a.jsonl", '{"text": 3}', False, "a.jsonl: row 1: its text is 3, which is no text"),
        ("a.jsonl", '{"text": "a"}', True, r"row 1: it has 1 columns \(text\); a translator needs 2"),
        ("a.csv", 'text\n"a', False, "a.csv: at line 1 there is no row of a CSV file: unexpected end of data"),
        ("a.parquet", "no", False, "a.parquet is not a Parquet file"),
        ("a.txt.gz", "no", False, "a.txt.gz cannot be read: Not a gzipped file"),
    ],
)
def test_what_cannot_be_read_is_named(
    name: str, content: str | bytes | None, pairs: bool, sentence: str, tmp_path: Path
) -> None:
    file = str(tmp_path / name) if content is None else written(tmp_path, name, content)
    with pytest.raises(ValueError, match=sentence):
        read_texts(Source(train=(file,)), pairs)


def test_a_data_set_of_the_hub_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[object] = []

    def have(*words: object, **named: object) -> datasets.Dataset:
        asked.append((words, named))
        pairs = [{"en": f"text {i}", "de": f"Text {i}"} for i in range(4)]
        return datasets.Dataset.from_dict({"translation": pairs})

    monkeypatch.setattr(datasets, "load_dataset", have)
    source = Source(train=("owner/name",), subset="de-en", validation_split="validation")
    texts = read_texts(source, True)
    assert [row.texts for row in texts.train][:1] == [("text 0", "Text 0")]
    assert asked == [
        (("owner/name", "de-en"), {"split": "train", "streaming": False}),
        (("owner/name", "de-en"), {"split": "validation", "streaming": False}),
    ]

    def refuse(*words: object, **named: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ValueError, match="owner/name is no file here, and cannot be had from the hub: no network"):
        read_texts(source, True)


def test_files_that_are_here_need_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*words: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    file = written(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": "b"}\n')
    assert rows(Source(train=(file,))) == [("a",), ("b",)]
