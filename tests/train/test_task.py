"""What a model is taught: ids that are its own, kept once, and scores that count what was said."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import processors

from clearhead.config import Positions, Stack
from clearhead.families.presets import small_translator
from clearhead.model.transformer import Transformer
from clearhead.text.build import char_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data import tokens
from clearhead.train.data.batches import Pairs, Parts, stream
from clearhead.train.data.packed import Packed
from clearhead.train.data.streamed import Streamed
from clearhead.train.loss import teach
from clearhead.train.recipe import Batches, Recipe, Source, Vocabulary, Watching
from clearhead.train.score import evaluate
from clearhead.train.start import new
from clearhead.train.task import Task, task_of

TEXT = "".join(f"line {i} of small words\n" for i in range(60))


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(TEXT)
    return str(tmp_path / "text.txt")


def two(folder: Path, count: int = 60) -> tuple[str, str]:
    (folder / "en").write_text("".join(f"number {i}\n" for i in range(count)))
    (folder / "de").write_text("".join(f"Zahl {i}\n" for i in range(count)))
    return str(folder / "en"), str(folder / "de")


def begun(recipe: Recipe, folder: Path) -> tuple[Task, Transformer, Parts]:
    task = task_of(recipe)
    model = new(recipe, task.texts).eval()
    return task, model, task.data(model, folder)


def with_table(stack: Stack | None, count: int) -> Stack:
    assert stack is not None
    return replace(stack, positions=Positions(kind="learned", count=count))


def test_bits_per_byte_of_a_model_that_knows_nothing_are_those_of_its_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcd" * 500)
    _, model, parts = begun(Recipe(data=Source(train=(str(tmp_path / "a.txt"),))), tmp_path)
    for parameter in model.parameters():
        parameter.data.zero_()
    score = evaluate(model, parts.validation)
    assert score.tokens == parts.kept_bytes == 99
    assert score.bits_per_byte(99) == pytest.approx(torch.tensor(7.0).log2().item(), rel=1e-5)
    assert score.perplexity == pytest.approx(7, rel=1e-5)
    assert score.accuracy == 0.0, "all are as likely, and the first is pad"


def test_the_ids_are_made_once_without_a_network(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *words: pytest.fail("a connection was opened"))
    recipe = Recipe(data=Source(train=(file,)))
    task, model, parts = begun(recipe, tmp_path / "ids")
    first = next(stream(parts.train, 0))
    monkeypatch.setattr(tokens, "store", lambda *words: pytest.fail("made again"))
    assert torch.equal(next(stream(task.data(model, tmp_path / "ids").train, 0))["input_ids"], first["input_ids"])
    assert sorted(path.suffix for path in (tmp_path / "ids").iterdir()) == [".arrow", ".arrow"]
    monkeypatch.undo()
    other = new(replace(recipe, tokenizer=Vocabulary(kind="byte")), task.texts)
    task.data(other, tmp_path / "ids")
    assert len(list((tmp_path / "ids").iterdir())) == 4, "another tokenizer, other ids"


def test_trn_06_a_text_shorter_than_a_block_is_refused_with_both_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcdefghij")
    recipe = Recipe(data=Source(train=(str(tmp_path / "a.txt"),)))
    with pytest.raises(
        ValueError, match="the text to train on has 9 tokens, but needs 65; give a longer text, or a sm"
    ):
        begun(recipe, tmp_path / "ids")
    with pytest.raises(ValueError, match="the text to validate on has 1 tokens, but needs 2"):
        begun(replace(recipe, batch=Batches(block=4)), tmp_path / "ids")


def test_a_block_is_what_the_model_has_positions_for(file: str, tmp_path: Path) -> None:
    recipe = Recipe(data=Source(train=(file,)))
    task, model, _ = begun(recipe, tmp_path)
    short = Transformer(replace(model.config, decoder=with_table(model.config.decoder, 5)))
    short.tokenizer = model.tokenizer
    assert next(stream(task.data(short, tmp_path).train, 0))["input_ids"].shape[1] == 5
    asked = task_of(replace(recipe, batch=Batches(block=5)))
    with pytest.raises(ValueError, match=r"batch.block is 5, but the model has positions for 4; lower it"):
        asked.data(short, tmp_path)


def test_a_prompt_that_the_model_cannot_take_ends_no_run(
    file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = Recipe(data=Source(train=(file,)), watch=Watching(prompts=("line", "small words " * 9)))
    task, model, _ = begun(recipe, tmp_path)
    short = Transformer(replace(model.config, decoder=with_table(model.config.decoder, 20))).eval()
    short.tokenizer = model.tokenizer
    first, second = task.samples(short)
    assert first["sample"].startswith("line")
    assert second["sample"] == ""
    assert "no sample for 'small words" in caplog.text


def test_trn_07_ids_outside_the_vocabulary_are_refused_with_both_numbers(file: str, tmp_path: Path) -> None:
    task, model, _ = begun(Recipe(data=Source(train=(file,))), tmp_path)
    model.tokenizer = char_tokenizer([TEXT, "ABCDEFGHIJ"])
    largest = max(model.tokenizer.encode(TEXT))
    with pytest.raises(ValueError, match=f"holds the id {largest}, but the model has {largest - 9}, from 0; its token"):
        task.data(model, tmp_path)


def test_targets_end_in_eos_and_do_not_repeat_the_first_token_of_the_decoder(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tx\nab\tyx\nb\t\n")
    recipe = Recipe(task="translate", data=Source(train=(str(tmp_path / "a.tsv"),)), tokenizer=Vocabulary(kind="char"))
    _, model, parts = begun(recipe, tmp_path)
    assert isinstance(model.tokenizer, Pair)
    assert isinstance(parts.train, Pairs)
    batch = parts.train.batch([0, 1])
    assert batch["input_ids"].tolist() == [[3, 2, 0], [3, 4, 2]]
    assert batch["labels"].tolist() == [[3, 2, -100], [4, 3, 2]]
    (kept,) = parts.validation.whole()
    assert kept["labels"].tolist() == [[2]]


def test_a_pair_that_is_too_long_for_the_model_is_named_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tx\nb\txxxxx\na\tx\n")
    recipe = Recipe(task="translate", data=Source(train=(str(tmp_path / "a.tsv"),)), tokenizer=Vocabulary(kind="char"))
    task, model, _ = begun(recipe, tmp_path)
    short = Transformer(replace(model.config, decoder=with_table(model.config.decoder, 4)))
    short.tokenizer = model.tokenizer
    with pytest.raises(
        ValueError, match=r"line 2 has 6 tokens, but the model has 4 positions; shorten it, or set data.l"
    ):
        task.data(short, tmp_path / "ids")
    parts = task_of(replace(recipe, data=replace(recipe.data, longest=4))).data(short, tmp_path / "ids")
    assert isinstance(parts.train, Pairs)
    assert len(parts.train.targets) == 1
    with pytest.raises(ValueError, match=r"no pair is left; recipe.data.longest is 1, raise it"):
        task_of(replace(recipe, data=replace(recipe.data, longest=1))).data(short, tmp_path / "ids")


def test_a_translation_is_scored_by_all_its_target_tokens(tmp_path: Path) -> None:
    recipe = Recipe(task="translate", data=Source(train=two(tmp_path)))
    task, model, parts = begun(recipe, tmp_path / "ids")
    assert model.tokenizer is not None
    expected = sum(len(model.tokenizer.encode(f"Zahl {i}", target=True)) - 1 for i in (57, 58, 59))  # without bos
    assert evaluate(model, parts.validation).tokens == expected
    assert parts.kept_bytes == 3 * len("Zahl 57\n")
    (sample,) = task.samples(model)
    assert (sample["given"], sample["target"]) == ("number 57", "Zahl 57")
    scores = task.scores(model)
    assert scores["sentences"] == 3
    assert "tok:13a" in scores["bleu_signature"]


def test_packed_documents_begin_and_end(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nab\n\n \nba\nabab\nabba\n" + "a\n" * 20)
    recipe = Recipe(
        data=Source(train=(str(tmp_path / "a.csv"),)),
        tokenizer=Vocabulary(kind="char"),
        batch=Batches(block=8, pack=True),
    )
    _, model, parts = begun(recipe, tmp_path / "ids")
    assert isinstance(parts.train, Packed)
    assert isinstance(parts.validation, Packed)
    assert model.tokenizer is not None
    a, b = (i for letter in "ab" for i in model.tokenizer.encode(letter, add_special_tokens=False))
    assert parts.train.ids[0].tolist() == [1, a, b, 2]
    assert parts.train.ids[1].tolist() == [1, b, a, 2]
    assert parts.kept_bytes == 2, "the letter and the end, but not the beginning"


def test_texts_of_one_token_cannot_be_packed(file: str, tmp_path: Path) -> None:
    task, model, _ = begun(Recipe(data=Source(train=(file,))), tmp_path / "ids")
    (tmp_path / "a.csv").write_text("text\n" + "l\n" * 30)
    assert isinstance(model.tokenizer, Tokenizer)
    model.tokenizer.bos = model.tokenizer.eos = None
    packed = task_of(Recipe(data=Source(train=(str(tmp_path / "a.csv"),)), batch=Batches(pack=True)))
    with pytest.raises(ValueError, match=r"no text to train on has 2 tokens; give longer ones, or leave out"):
        packed.data(model, tmp_path / "others")
    assert task.texts.rows == 1


def test_a_stream_trains_on_the_same_texts_without_keeping_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"words of row {i}\n" for i in range(1200)))
    source = Source(train=(str(tmp_path / "a.csv"),), stream=True)
    recipe = Recipe(data=source, steps=3, batch=Batches(block=8, tokens=32), tokenizer=Vocabulary(kind="byte"))
    _, model, parts = begun(recipe, tmp_path / "ids")
    assert isinstance(parts.train, Streamed)
    assert model.tokenizer is not None
    assert parts.train.per_epoch is None
    batches = [batch["input_ids"] for _, batch in zip(range(40), stream(parts.train, 0), strict=False)]
    text = "".join(model.tokenizer.decode(row) for batch in batches for row in batch)
    assert {batch.shape for batch in batches} <= {(4, 9), *((n, 9) for n in range(1, 4))}
    assert "row 999" not in text, "the first rows are kept for validation"
    assert "row 1" in text
    later = next(stream(parts.train, 0, 30))
    assert torch.equal(later["input_ids"], batches[30])
    assert len(list((tmp_path / "ids").iterdir())) == 1, "only validation is stored"


def test_gaps_are_filled_with_words_of_the_text(file: str, tmp_path: Path) -> None:
    recipe = Recipe(task="mlm", data=Source(train=(file,)), watch=Watching(prompts=("line <mask> of", TEXT[:60])))
    task, model, parts = begun(recipe, tmp_path)
    assert model.tokenizer is not None
    assert parts.kept_bytes is None
    batch = next(stream(parts.train, 0))
    asked = batch["labels"] != -100
    assert 0.05 < asked.float().mean().item() < 0.3
    assert batch["labels"][asked].min() > 3
    first, second = task.samples(model)
    assert first["given"] == "line<mask> of" or first["given"] == "line <mask> of"
    assert "<mask>" in second["given"]
    assert "<mask>" not in second["sample"]
    assert evaluate(model, parts.validation).tokens > 0


def speaking(template: str) -> tuple[Transformer, int, int, int]:
    """A translator whose tokenizer knows three languages; a, eos, and the token of German."""
    tokenizer = char_tokenizer(["ab"])
    inner, codes = tokenizer.inner, ["en_XX", "de_DE", "fr_XX"]
    inner.add_special_tokens(codes)
    known = [(token, inner.token_to_id(token)) for token in ("</s>", "en_XX")]
    inner.post_processor = processors.TemplateProcessing(single=template, special_tokens=known)
    model = Transformer(small_translator(len(tokenizer), len(tokenizer), 32)).eval()
    model.tokenizer = tokenizer
    return model, inner.token_to_id("a"), 2, inner.token_to_id("de_DE")


@pytest.mark.parametrize("template", ["en_XX $A </s>", "$A </s> en_XX"])
def test_a_language_in_front_is_written_and_one_behind_is_started_from(template: str, tmp_path: Path) -> None:
    model, a, eos, german = speaking(template)
    (tmp_path / "a.tsv").write_text("aa\ta\n" * 4)
    recipe = Recipe(task="translate", data=Source(train=(str(tmp_path / "a.tsv"),)))
    with pytest.raises(ValueError, match=r"data.tgt_lang is null, but the tokenizer has 3 languages; name one of them"):
        task_of(recipe).data(model, tmp_path / "ids")
    wrong = replace(recipe, data=replace(recipe.data, tgt_lang="de_XX"))
    with pytest.raises(ValueError, match=r"data.tgt_lang is 'de_XX'; did you mean 'de_DE'"):
        task_of(wrong).data(model, tmp_path / "ids")
    task = task_of(replace(recipe, data=replace(recipe.data, tgt_lang="de_DE", src_lang="fr_XX")))
    batch = next(stream(task.data(model, tmp_path / "ids").train, 0))
    french, first = german + 1, template.startswith("en")
    assert batch["input_ids"][0].tolist() == ([french, a, a, eos] if first else [a, a, eos, french])
    assert batch["labels"][0].tolist() == ([german, a, eos] if first else [a, eos])
    fed, _ = teach(model.config, batch)
    assert fed["decoder_input_ids"][0].tolist() == ([1, german, a] if first else [german, a])
    assert task.scores(model)["sentences"] == 1


def test_a_language_of_a_tokenizer_that_has_none_is_refused(tmp_path: Path) -> None:
    source = Source(train=two(tmp_path), tgt_lang="de_DE")
    with pytest.raises(
        ValueError, match=r"data.tgt_lang is 'de_DE', but the tokenizer knows no languages; leave it out"
    ):
        begun(Recipe(task="translate", data=source), tmp_path / "ids")


def test_a_short_stream_is_read_over_and_over(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"row {i}\n" for i in range(1100)))
    source = Source(train=(str(tmp_path / "a.csv"),), stream=True)
    recipe = Recipe(data=source, steps=3, batch=Batches(block=8, tokens=64), tokenizer=Vocabulary(kind="byte"))
    _, _, parts = begun(recipe, tmp_path / "ids")
    assert len([batch for _, batch in zip(range(50), stream(parts.train, 0), strict=False)]) == 50
