"""Spans as a task: a new model and a T5 of the home library say what stood there, and a run goes on to the bit."""

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.cli import main
from clearhead.families.load import load
from clearhead.families.store import read_json
from clearhead.model.transformer import Transformer
from clearhead.text.tokenizer import Tokenizer
from clearhead.train import run as running
from clearhead.train.data.batches import stream
from clearhead.train.data.spans import sentinels, woven
from clearhead.train.data.streamed import Streamed
from clearhead.train.doctor import doctor
from clearhead.train.folder import REPORT, read_log
from clearhead.train.loss import Batch
from clearhead.train.recipe import Batches, Model, Recipe, Source, Vocabulary, Watching
from clearhead.train.score import evaluate
from clearhead.train.spread import ALONE
from clearhead.train.start import begin, new
from clearhead.train.task import task_of
from families import vocabularies as make
from truth.homes import t5

TEXT = "".join(f"line {i} of {i * i % 37} small words\n" for i in range(120))


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "text.txt").write_text(TEXT)
    source = Source(train=(str(tmp_path / "text.txt"),))
    return Recipe(task="span", data=source, model=Model(dim=64, layers=1), batch=Batches(block=32, tokens=64), steps=2)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """The home library's own T5, tiny, with so many sentinels; the first of them has the largest id."""

    def written(size: int) -> str:
        files = {"spiece.model": make.pad_first()}
        folder = make.write(tmp_path_factory.mktemp("t5") / "t5", files, "t5", extra_ids=size)
        torch.manual_seed(0)
        t5(vocab_size=320, eos_token_id=1).save_pretrained(folder)
        return str(folder)

    return written


def known(model: Transformer) -> Tokenizer:
    assert isinstance(model.tokenizer, Tokenizer)
    return model.tokenizer


def test_a_new_model_shares_its_tables_and_gets_as_many_sentinels_as_a_block_needs(recipe: Recipe) -> None:
    model = new(recipe, task_of(recipe).texts)
    assert sentinels(known(model)) == list(range(len(known(model)) - 3, len(known(model)))), "5 of 32 tokens in 2 spans"
    assert model.encoder is not None
    assert model.decoder is not None
    assert model.encoder.embedding is model.decoder.embedding
    assert model.last.form.vocab == len(known(model))
    assert known(model).decode(known(model).encode(TEXT[:70])) == TEXT[:70]


@pytest.mark.parametrize("kind", ["byte", "char", "word", "unigram"])
def test_every_tokenizer_gets_sentinels(kind: Any, recipe: Recipe) -> None:
    model = new(replace(recipe, tokenizer=Vocabulary(kind=kind)), task_of(recipe).texts)
    assert len(sentinels(known(model))) == 3


def test_batches_hold_the_text_and_validation_all_of_it(recipe: Recipe, tmp_path: Path) -> None:
    task = task_of(recipe)
    model = new(recipe, task.texts).eval()
    parts = task.data(model, tmp_path / "ids")
    assert parts.kept_bytes is None
    marks, batch = sentinels(known(model)), next(stream(parts.train, 0))
    for left, target in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        text = known(model).decode(woven(left, target, marks))
        assert text in TEXT
        assert "<extra_id_0>" in known(model).decode(left, False)
        assert target[-1] == known(model).eos
    kept = [row for part in parts.validation.whole() for row in zip(part["input_ids"], part["labels"], strict=True)]
    ids = [i for left, target in kept for i in woven(left.tolist()[:-1], target.tolist()[:-1], marks)]
    assert TEXT.endswith(known(model).decode(ids) + "\n")
    assert len(ids) > 32, "more than the whole block"
    assert evaluate(model, parts.validation).tokens == sum(len(target) for _, target in kept)


def test_a_t5_is_asked_with_its_own_sentinels(home: Callable[[int], str], recipe: Recipe, tmp_path: Path) -> None:
    asked = replace(recipe, model=Model(start=home(5)))
    task = task_of(asked)
    model = begin(asked, task.texts, ALONE).eval()
    marks = sentinels(known(model))
    assert marks == [known(model).encode(f"<extra_id_{i}>")[0] for i in range(5)]
    assert marks == sorted(marks, reverse=True), "as T5 has them"
    batch = next(stream(task.data(model, tmp_path / "ids").train, 0))
    assert [[i for i in row if i in marks] for row in batch["input_ids"].tolist()] == [marks[:2]] * 2
    assert [[i for i in row if i in marks] for row in batch["labels"].tolist()] == [marks[:3]] * 2
    assert (batch["labels"][:, -1] == 1).all()


def test_too_few_sentinels_are_refused_with_both_numbers(
    home: Callable[[int], str], recipe: Recipe, tmp_path: Path
) -> None:
    asked = replace(recipe, model=Model(start=home(2)))
    task = task_of(asked)
    model = begin(asked, task.texts, ALONE)
    sentence = r"has 2 sentinels \(<extra_id_0> and so on\), but a block of 32 tokens needs 3; lower batch.block"
    with pytest.raises(ValueError, match=sentence):
        task.data(model, tmp_path / "ids")
    task_of(replace(asked, batch=Batches(block=16))).data(model, tmp_path / "ids")
    without = replace(asked, model=Model(start=home(0)))
    with pytest.raises(ValueError, match=r"the model's tokenizer has no eos, or no <extra_id_0> and so on"):
        begin(without, task.texts, ALONE)


def test_what_a_recipe_cannot_mean_is_refused(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match=r"batch.pack is true, but task is span"):
        replace(recipe, batch=Batches(pack=True))
    with pytest.raises(ValueError, match=r"batch.block is 1, but task is span"):
        replace(recipe, batch=Batches(block=1))


def test_a_sample_is_the_text_with_what_the_model_says(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(replace(recipe, watch=Watching(prompts=("line 3 of<extra_id_0> words", TEXT[:30]))))
    model = new(recipe, task.texts).eval()
    first, tokenizer = sentinels(known(model))[0], known(model)
    words = torch.tensor([[1, first, *tokenizer.encode(" small", add_special_tokens=False), first + 1, 2]])
    monkeypatch.setattr("clearhead.train.task_spans.generate", lambda *given, **options: words)
    prompt, drawn = task.samples(model)
    assert prompt["given"].replace(" ", "") == "line3of<extra_id_0>words"
    assert prompt["sample"] == "line 3 of small words"
    assert "<extra_id_0>" in drawn["given"]
    assert " small" in drawn["sample"]
    monkeypatch.undo()
    assert len(task.samples(model)) == 2, "a model that knows nothing says something"


def test_the_doctor_looks_at_spans(recipe: Recipe) -> None:
    facts = doctor(replace(recipe, steps=50)).facts
    assert (facts["task"], facts["block"], facts["padding"], facts["steps"]) == ("span", 32, 0, 50)


def test_a_stream_of_rows(tmp_path: Path, recipe: Recipe) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"words of row {i}\n" for i in range(1200)))
    asked = replace(recipe, data=Source(train=(str(tmp_path / "a.csv"),), stream=True))
    task = task_of(asked)
    parts = task.data(new(asked, task.texts), tmp_path / "ids")
    assert isinstance(parts.train, Streamed)
    batches = [batch["labels"] for batch, _ in zip(stream(parts.train, 0), range(6), strict=False)]
    assert torch.equal(next(stream(parts.train, 0, 5))["labels"], batches[5])


def test_the_verb_trains_and_goes_on_to_the_bit(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(out: str, *more: str) -> None:
        words = [
            "train",
            "span",
            recipe.data.train[0],
            "--out",
            str(tmp_path / out),
            "--steps",
            "4",
            "--save-every",
            "2",
        ]
        monkeypatch.setattr(sys, "argv", ["clearhead", *words, "--threads", "1", *more])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code

    real = running.stream

    def interrupted(*given: Any) -> Iterator[Batch]:
        for i, batch in enumerate(real(*given), 1):
            if i == 3:
                signal.raise_signal(signal.SIGINT)
            yield batch

    call("whole")
    with monkeypatch.context() as patched:
        patched.setattr(running, "stream", interrupted)
        call("halved")
    assert len(read_log(tmp_path / "halved")) == 3
    call("halved", "--resume")
    whole, halved = (tmp_path / name / "model.safetensors" for name in ("whole", "halved"))
    assert whole.read_bytes() == halved.read_bytes()
    log, report = read_log(tmp_path / "whole"), read_json(tmp_path / "halved" / REPORT)
    assert len(log) == report["steps"] == 4
    assert report["bits_per_byte"] is None
    assert "<extra_id_0>" in report["samples"][0]["given"]
    assert len(sentinels(known(load(tmp_path / "whole")))) == 4, "10 of 64 tokens in 3 spans"
