"""Classifiers of texts: their data, their head, a run, and what the verbs say."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import clearhead
from clearhead.config import TextClassifier
from clearhead.families.labelling import with_labels
from clearhead.families.load import load, save
from clearhead.model.transformer import Transformer
from clearhead.text.build import bytes_tokenizer
from clearhead.train.data.files import Part, texts_of
from clearhead.train.data.tokens import ReadLabels
from clearhead.train.doctor import doctor
from clearhead.train.exam import exam
from clearhead.train.labels import macro_f1
from clearhead.train.loop import backward
from clearhead.train.loss import teach
from clearhead.train.recipe import Recipe, Source, recipe_of
from clearhead.train.run import run
from train.runs import state
from train.test_loss import small
from truth.homes import HOMES, randomised

ROWS = [(f"{'good' if i % 3 else 'bad'} thing {i}", "yes" if i % 3 else "no") for i in range(90)]


def table(folder: Path, name: str = "rows.tsv", header: str = "text\tlabel\n") -> Path:
    (folder / name).write_text(header + "".join(f"{text}\t{label}\n" for text, label in ROWS), encoding="utf-8")
    return folder / name


def recipe_for(file: Path, **settings: Any) -> Recipe:
    model = {"dim": 64, "layers": 1, "dropout": 0.0}
    plain = {"task": "classify", "data": {"train": str(file)}, "model": model, "steps": 60, "save": {"every": 20}}
    return recipe_of({**plain, "batch": {"tokens": 512}, **settings})


@pytest.mark.parametrize("kind", ["tsv", "bare.tsv", "csv", "jsonl", "parquet"])
def test_every_table_gives_texts_and_labels(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind.endswith("tsv"):
        table(tmp_path, file.name, "" if kind == "bare.tsv" else "text\tlabel\n")
    elif kind == "csv":
        file.write_text("label,text\n" + "".join(f"{label},{text}\n" for text, label in ROWS))
    elif kind == "jsonl":
        file.write_text("".join(json.dumps({"label": label, "text": text}) + "\n" for text, label in ROWS))
    else:
        import pyarrow
        from pyarrow.parquet import write_table

        write_table(pyarrow.table({"label": [b for _, b in ROWS], "text": [a for a, _ in ROWS]}), file)
    texts = texts_of(recipe_for(file))
    assert [row.texts for part in (texts.train, texts.validation) for row in part] == ROWS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"text": "a", "label": 0.5}\n', r"row 1: its label is 0.5; a label is a word or a whole number"),
        ('{"text": "a", "label": ""}\n', r"row 1: its label is ''; a label is a word"),
        ('{"text": "a"}\n', "row 1: it has no column 'label', but text; name one of these as data.label"),
    ],
)
def test_labels_that_are_none_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(text * 3)
    with pytest.raises(ValueError, match=sentence):
        texts_of(recipe_for(tmp_path / "rows.jsonl"))


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        ({"data": {"label": "a"}}, "data.label is 'a', but task is lm; set it to classify"),
        (
            {"task": "classify", "data.stream": True, "steps": 3},
            "data.stream is True, but task is classify",
        ),
        (
            {"task": "classify", "model": {"start": "a", "lora": {"rank": 2}}},
            "model.lora.rank is 2, but task is cla",
        ),
    ],
)
def test_recipes_that_cannot_be_meant_are_refused(plain: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        recipe_of(plain)


def test_running_text_and_one_label_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words\n")
    with pytest.raises(ValueError, match=r"a.txt is no table; give one with columns for texts and labels"):
        texts_of(recipe_for(tmp_path / "a.txt"))
    (tmp_path / "one.tsv").write_text("text\tlabel\n" + "a\tyes\n" * 30)
    with pytest.raises(ValueError, match=r"the data has 1 different labels; a classifier needs 2 to 1,000"):
        run(recipe_for(tmp_path / "one.tsv"), tmp_path / "run")


def test_the_loss_is_the_models_own_and_rows_that_count_nothing_count_nothing() -> None:
    torch.manual_seed(0)
    model = with_labels(small("encoder"), ["a", "b", "c"])
    ids, labels = torch.randint(3, 11, (3, 5)), torch.tensor([0, 2, 1])
    loss, count = backward(model, [{"input_ids": ids, "labels": labels}])
    assert count == 3
    assert loss == pytest.approx(float(model(ids, labels=labels).loss.detach()), rel=1e-12)
    ignored = labels.masked_fill(torch.tensor([False, True, False]), -100)
    fewer, count = backward(model, [{"input_ids": ids, "labels": ignored}])
    assert count == 2
    assert fewer == pytest.approx(float(model(ids[[0, 2]], labels=labels[[0, 2]]).loss.detach()), rel=1e-12)
    fed, targets = teach(model.config, {"input_ids": ids, "labels": labels})
    assert set(fed) == {"input_ids"}
    assert targets is labels


def test_macro_f1_by_hand() -> None:
    said, wanted = ["a", "a", "b", "b", "c"], ["a", "b", "b", "b", "a"]
    assert macro_f1(said, wanted) == pytest.approx((2 * 1 / 4 + 2 * 2 / 5 + 0) / 3)


HEADED = {"bert": "BertFor", "distilbert": "DistilBertFor", "llama": "LlamaFor", "gpt2": "GPT2For"}


@pytest.mark.parametrize("name", HEADED)
def test_a_model_with_a_home_gets_its_homes_head_and_is_saved_as_its_class(
    name: str, make: Callable[..., Path], tmp_path: Path
) -> None:
    model = load(make(name))
    torch.manual_seed(0)
    found = with_labels(model, ["no", "yes", "perhaps"])
    save(found, tmp_path / "labelled")
    content = json.loads((tmp_path / "labelled" / "config.json").read_text())
    assert content["architectures"] == [HEADED[name] + "SequenceClassification"]
    again = load(tmp_path / "labelled")
    assert again.config == found.config
    assert isinstance(again.config.head, TextClassifier)
    assert again.config.head.labels == ("no", "yes", "perhaps")
    home = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "labelled").eval()
    assert home.config.id2label == {0: "no", 1: "yes", 2: "perhaps"}
    ids = torch.arange(14, 22)[None]
    with torch.no_grad():
        assert (home(ids).logits - again(ids).logits).abs().max() < 1e-5
    stacks = {name for name, _ in model.named_parameters() if not name.startswith("head.")}
    assert all(torch.equal(model.get_parameter(one), again.get_parameter(one)) for one in stacks)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    def folder(name: str) -> Path:
        randomised(HOMES[name]()).save_pretrained(tmp_path / "m")
        return tmp_path / "m"

    return folder


def test_heads_without_a_home_follow_from_the_stack() -> None:
    assert with_labels(small("decoder"), ["a", "b"]).config.head == TextClassifier(labels=("a", "b"), pool="last")
    assert with_labels(small("encoder"), ["a", "b"]).config.head == TextClassifier(labels=("a", "b"), pool="mean")
    with pytest.raises(ValueError, match="the model is an encoder and a decoder, but labels need one of them"):
        with_labels(small("both"), ["a", "b"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("labels")
    run(recipe_for(table(place)), place / "run")
    return place / "run"


def test_a_run_learns_labels_and_says_them(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    assert report["accuracy"] == report["macro_f1"] == 1.0
    assert report["samples"][0]["target"] in report["samples"][0]["sample"]
    model = load(finished)
    good, bad = clearhead.classify(model, ["good thing 4", "bad thing 3"])
    assert next(iter(good)) == "yes"
    assert next(iter(bad)) == "no"
    assert sum(good.values()) == pytest.approx(1)
    assert clearhead.classify(model, "good thing 4") == [pytest.approx(good, abs=1e-5)]
    found = exam(model, Source(train=(str(table(finished.parent)),)))
    assert found["accuracy"] == found["macro_f1"] == 1.0
    assert found["texts"] == 90


def test_trn_03_killed_it_goes_on_to_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    recipe = finished / "recipe.yaml"
    code = (
        "import os, signal, sys, torch\nfrom pathlib import Path\ntorch.set_num_threads(1)\n"
        "from clearhead.train import run\nreal = run.stream\n"
        "def die(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "run.stream = lambda *a: (b if i != 33 else die() for i, b in enumerate(real(*a)))\n"
        "from clearhead.train.recipe import read_recipe\n"
        "run.run(read_recipe(Path(sys.argv[1])), Path(sys.argv[2]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, recipe, tmp_path / "run"], capture_output=True)
    assert killed.returncode != 0
    assert not (tmp_path / "run" / "report.json").exists()
    words = ["train", "run", str(recipe), "--out", str(tmp_path / "run"), "--resume", "--threads", "1"]
    subprocess.run([sys.executable, "-m", "clearhead", *words], check=True, capture_output=True)
    assert state(tmp_path / "run") == state(finished)
    line = [sys.executable, "-m", "clearhead", "classify", str(finished), "good thing 7"]
    assert subprocess.run(line, check=True, capture_output=True, text=True).stdout.startswith("yes 9")


def test_a_classifier_is_gone_on_with_if_it_knows_the_labels(finished: Path, tmp_path: Path) -> None:
    other = tmp_path / "more.tsv"
    other.write_text("text\tlabel\n" + "good\tyes\nbad\tno\n" * 20)
    run(recipe_for(other, model={"start": str(finished)}, steps=1), tmp_path / "on")
    assert load(tmp_path / "on").config == load(finished).config
    other.write_text("text\tlabel\n" + "good\t10\nbad\t9\n" * 20)
    run(recipe_for(other, model={"start": str(finished)}, steps=1), tmp_path / "other")
    head = load(tmp_path / "other").config.head
    assert isinstance(head, TextClassifier)
    assert head.labels == ("9", "10")


def test_a_model_without_such_a_head_says_so() -> None:
    model = small("encoder")
    model.tokenizer = bytes_tokenizer()
    with pytest.raises(ValueError, match="the model has the head Head; labels need a TextClassifier, which clearhead"):
        clearhead.classify(model, "a")
    with pytest.raises(ValueError, match="the model has no tokenizer to read texts with"):
        clearhead.classify(small("encoder"), "a")


def test_texts_that_are_too_long_or_of_unknown_labels_are_named(tmp_path: Path) -> None:
    model: Transformer = with_labels(small("decoder"), ["yes", "no"])
    part = texts_of(recipe_for(table(tmp_path))).train
    read = ReadLabels(bytes_tokenizer(), model.config, Source(longest=11), ("yes", "no"))
    lengths = [len(row.texts[0]) for row in part]
    (group,) = read(Part(part.rows))
    assert len(group.text_bytes) == sum(len(text) <= 11 for text, _ in ROWS) < len(lengths)
    with pytest.raises(ValueError, match="line 2 has the label 'yes', which the model does not know"):
        next(ReadLabels(bytes_tokenizer(), model.config, Source(), ("no",))(part))


def test_the_doctor_counts_labels_and_finds_files_that_are_sorted(tmp_path: Path) -> None:
    found = doctor(recipe_for(table(tmp_path)), try_steps=True)
    assert not found.faults
    assert "labels: yes 57, no 29" in [finding.what for finding in found.findings]
    assert found.facts["text"]["tokens"] > 0
    assert 0 <= found.facts["padding"] < 1
    in_order = sorted(ROWS, key=lambda row: row[1])
    (tmp_path / "s.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in in_order))
    (fault,) = [one.what for one in doctor(recipe_for(tmp_path / "s.tsv"), False).findings if one.level == "fault"]
    assert fault == "no row kept for validation has the label no; shuffle the rows, or name data.validation"
