"""Scores: against the library that everybody quotes, of text as people read it."""

from pathlib import Path

import pytest
import sacrebleu

from clearhead.generation.text import translate
from clearhead.model.transformer import Transformer
from clearhead.train import score as module
from clearhead.train.data.files import read_texts
from clearhead.train.data.rows import Row
from clearhead.train.exam import exam
from clearhead.train.recipe import Model, Recipe, Source, Vocabulary
from clearhead.train.score import Score, refuse_pieces, translation_scores
from clearhead.train.start import new

ROWS = [Row((f"number {i} is here", f"die Zahl {i} ist da")) for i in range(9)]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    file = tmp_path_factory.mktemp("pairs") / "a.tsv"
    file.write_text("".join("\t".join(row.texts) + "\n" for row in ROWS))
    recipe = Recipe(task="translate", data=Source(train=(str(file),)), model=Model(dim=32, layers=1))
    return new(recipe, read_texts(recipe.data, True)).eval()


def test_bleu_and_chrf_are_the_librarys_with_its_signatures(
    translator: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {row.texts[0]: row.texts[1].replace("da", "hier") for row in ROWS}
    monkeypatch.setattr(module, "translate", lambda model, texts, **options: [written[text] for text in texts])
    found = translation_scores(translator, ROWS, None)
    references = [[row.texts[1] for row in ROWS]]
    assert found["bleu"] == sacrebleu.corpus_bleu([*written.values()], references).score
    assert found["chrf"] == sacrebleu.corpus_chrf([*written.values()], references).score
    assert found["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "nc:6|nw:0" in found["chrf_signature"]
    assert (found["sentences"], found["identical"]) == (9, pytest.approx(1 / 9))


def test_sentences_are_translated_once_each_by_beam_search(
    translator: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], int]] = []

    def told(model: Transformer, texts: list[str], **options: int) -> list[str]:
        asked.append((texts, options["num_beams"]))
        return translate(model, texts, **{**options, "max_new_tokens": 2})

    monkeypatch.setattr(module, "translate", told)
    monkeypatch.setattr(module, "TOGETHER", 4)
    found = translation_scores(translator, [Row((" ", "leer")), *ROWS], 6, beams=3)
    assert found["sentences"] == 6
    assert sorted(text for texts, _ in asked for text in texts) == sorted(row.texts[0] for row in ROWS[:6])
    assert {beams for _, beams in asked} == {3}
    with pytest.raises(ValueError, match="there is no sentence to translate"):
        translation_scores(translator, [Row(("", "a"))], None)


def test_trn_12_pieces_of_words_are_refused(translator: Transformer) -> None:
    with pytest.raises(ValueError, match=r"sentence 2 is in pieces of words \('l@@ i@@ ke that'\); join them before"):
        refuse_pieces(["like", "l@@ i@@ ke that"])
    refuse_pieces(["write to me@@home.org", "@@ alone"])
    with pytest.raises(ValueError, match="sentence 1 is in pieces of words"):
        translation_scores(translator, [Row(("a b", "z@@ wei"))], None)


def test_a_loss_in_other_words() -> None:
    score = Score(loss=2.0794415, tokens=100, accuracy=0.5)
    assert score.perplexity == pytest.approx(8, rel=1e-6)
    assert score.bits_per_byte(150) == pytest.approx(2)
    assert Score(1000.0, 1, 0.0).perplexity == float("inf")


def test_an_exam_is_on_all_of_the_files(translator: Transformer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcd" * 30)
    recipe = Recipe(data=Source(train=(str(tmp_path / "a.txt"),)), model=Model(dim=64, layers=1))
    model = new(recipe, read_texts(recipe.data, False)).eval()
    found = exam(model, recipe.data)
    assert (found["task"], found["tokens"]) == ("lm", 119)
    assert found["bits_per_byte"] == pytest.approx(found["loss"] / 0.6931472, rel=1e-5)
    assert exam(model, recipe.data, block=4)["loss"] != found["loss"]
    files = tuple(str(tmp_path / name) for name in ("en", "de"))
    for name, side in zip(files, (0, 1), strict=True):
        Path(name).write_text("".join(row.texts[side] + "\n" for row in ROWS))
    found = exam(translator, Source(train=files), beams=1, sentences=2)
    assert found["sentences"] == 2
    assert found["tokens"] > 9


def test_gaps_are_scored_without_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some words to fill in " * 20)
    recipe = Recipe(
        task="mlm",
        data=Source(train=(str(tmp_path / "a.txt"),)),
        model=Model(dim=64, layers=1),
        tokenizer=Vocabulary(kind="word"),
    )
    found = exam(new(recipe, read_texts(recipe.data, False)).eval(), recipe.data)
    assert found["bits_per_byte"] is None
    assert 0 < found["tokens"] < 40
