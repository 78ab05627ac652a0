"""The doctor: each thing that can be wrong with data is found, named with its number, and nothing else is."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from clearhead.families.load import save
from clearhead.train.doctor import Diagnosis, doctor, task_of_data
from clearhead.train.examine import examine_bytes
from clearhead.train.recipe import Batches, Model, Recipe, Source, Vocabulary
from clearhead.train.start import new
from clearhead.train.task import task_of

PAIRS = [(f"the number {i} is here", f"die Zahl {i} ist da") for i in range(60)]
TINY = Model(dim=64, layers=1)


def of_pairs(folder: Path, pairs: list[tuple[str, str]], **said: Any) -> Diagnosis:
    (folder / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    recipe = Recipe(task="translate", data=Source(train=(str(folder / "a.tsv"),)), model=TINY, **said)
    return doctor(recipe, try_steps=False)


def of_text(folder: Path, text: str | bytes, **said: Any) -> Diagnosis:
    (folder / "a.txt").write_bytes(text.encode() if isinstance(text, str) else text)
    return doctor(Recipe(data=Source(train=(str(folder / "a.txt"),)), model=TINY, **said), try_steps=False)


def texts(found: Diagnosis) -> str:
    return "\n".join(f"{one.level}: {one.what}" for one in found.findings)


def test_clean_data_are_clean_and_counted(tmp_path: Path) -> None:
    found = of_pairs(tmp_path, PAIRS)
    assert (found.faults, found.findings) == (0, [])
    facts = found.facts
    assert (facts["rows"], facts["kept"], facts["task"]) == (57, 3, "translate")
    assert facts["characters"] == sum(len(a) + len(b) for a, b in PAIRS[:57])
    assert facts["source"]["vocabulary"] > facts["source"]["largest_id"]
    assert facts["target"]["tokens"] > 57
    assert found.to_dict()["clean"] is True


def test_a_few_steps_tell_time_and_memory(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {i} of words\n" for i in range(60)))
    source, batch = Source(train=(str(tmp_path / "a.txt"),)), Batches(block=8, tokens=32, accumulate=2)
    for task in ("lm", "mlm"):
        facts = doctor(Recipe(task=task, data=source, model=TINY, batch=batch, steps=50)).facts
        assert facts["steps"] == 50
        assert facts["seconds"] == pytest.approx(50 * facts["seconds_per_step"])
        assert facts["memory_gb"] > 0.05
        assert facts["padding"] == 0
        assert facts["block"] == 8


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([("", "leer")], "fault: 1 row without a text on some side (row 1); take them out"),
        ([(" ", "leer"), ("empty", "")], "fault: 2 rows without a text on some side (rows 1, 2); take them out"),
        ([("yes", "ja " * 20)], "note: 1 pair with one side more than 4 times as long as the other (row 1)"),
        ([("the same words", "the same words")], "note: 1 pair with the same text on both sides"),
        ([PAIRS[3]], "note: 1 row to train on that stood there before, word for word"),
    ],
)
def test_rows_that_are_not_as_they_should_be(pairs: list[tuple[str, str]], sentence: str, tmp_path: Path) -> None:
    found = of_pairs(tmp_path, [*pairs, *PAIRS], tokenizer=Vocabulary(kind="byte"))
    assert texts(found) == sentence
    assert found.faults == sentence.startswith("fault")


def test_what_is_kept_must_not_be_trained_on(tmp_path: Path) -> None:
    found = of_pairs(tmp_path, [*PAIRS, PAIRS[0]])
    assert "fault: 1 of 3 rows kept for validation are also trained on" in texts(found)
    assert found.facts["leaked"] == 1
    few = of_text(tmp_path, "".join(f"a line of words {i % 57}\n" for i in range(60)))
    assert "note: 3 of 3 lines kept for validation are also trained on" in texts(few)
    assert few.faults == 0, "books repeat themselves"


def test_trn_11_bytes_that_are_no_text_and_lines_that_others_would_end(tmp_path: Path) -> None:
    found = of_text(tmp_path, b"gut\nf\xfcr\nf\xfcr\n")
    assert "fault: " in texts(found)
    assert "2 lines (the first is 2) hold bytes that are not UTF-8; convert the file first" in texts(found)
    strange = "one\u2028two\nthree\x0bfour\n" * 30 + "a\ufffd\n"
    found = of_text(tmp_path, strange)
    assert "30 lines (the first is 1) hold U+2028, at which other tools end a line" in texts(found)
    assert "30 lines (the first is 2) hold VT" in texts(found)
    assert "1 line (the first is 61) holds U+FFFD, which an earlier conversion left" in texts(found)
    assert found.faults == 0
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"a\x00b\n"))
    assert "NUL" in next(iter(examine_bytes([str(tmp_path / "b.txt.gz")]))).what


def test_what_would_stop_a_run_is_a_fault(tmp_path: Path) -> None:
    assert "fault: the text to train on has 9 tokens, but needs 65" in texts(of_text(tmp_path, "abcdefghij"))
    assert "is empty; give some text" in texts(of_text(tmp_path, "\n"))
    (tmp_path / "b").write_text("one\n")
    (tmp_path / "c").write_text("eins\nzwei\n")
    source = Source(train=(str(tmp_path / "b"), str(tmp_path / "c")))
    assert "b has 1 lines but" in texts(doctor(Recipe(task="translate", data=source)))


def test_what_does_not_fit_the_model_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{a}\n" for a, _ in PAIRS))
    source = Source(train=(str(tmp_path / "a.txt"),))
    asked = Recipe(data=source, model=TINY, tokenizer=Vocabulary(kind="word"))
    model = new(asked, task_of(asked).texts)
    save(model, tmp_path / "model")
    start = Model(start=str(tmp_path / "model"))
    assert task_of_data(["a.txt"], start.start) == "lm"
    (tmp_path / "b.txt").write_text("".join(f"the figure {i} is here\n" for i in range(60)))
    found = doctor(Recipe(data=Source(train=(str(tmp_path / "b.txt"),)), model=start, batch=Batches(block=8)), False)
    assert "fault: 2" in texts(found)
    assert "of the text's tokens are unknown to the tokenizer" in texts(found)


def test_pairs_beyond_the_positions_and_the_batch_are_counted(tmp_path: Path) -> None:
    words = Vocabulary(kind="word")
    long = [*PAIRS, ("a " * 30, "b " * 30)]
    assert "note: pairs longer than batch.tokens 20, each a batch of its own: 1" in texts(
        of_pairs(tmp_path, long[::-1], tokenizer=words, batch=Batches(tokens=20))
    )
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in long))
    source = Source(train=(str(tmp_path / "a.tsv"),), longest=10)
    found = doctor(Recipe(task="translate", data=source, model=TINY, tokenizer=words), False)
    assert "note: 1 of 61 pairs have more than 10 tokens on a side" in texts(found)


def test_the_task_follows_from_the_files() -> None:
    assert task_of_data(["a.en", "a.de"], None) == "translate"
    assert task_of_data(["a.txt"], None) == "lm"
    assert task_of_data(["a.csv", "b.csv"], None) == "lm"
