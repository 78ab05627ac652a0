"""The model that a data set gets: its tokenizer and width by the size of the data, or as the recipe says."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from clearhead.families.load import save
from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train import start as module
from clearhead.train.data.files import Texts, read_texts
from clearhead.train.recipe import Model, Recipe, Source, Vocabulary
from clearhead.train.spread import ALONE
from clearhead.train.start import begin, drop, new
from train.test_loss import small

TEXT = "".join(f"line {i} of small words\n" for i in range(60))


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    (tmp_path / "text").write_text(TEXT + "ω", encoding="utf-8")
    return read_texts(Source(train=(str(tmp_path / "text"),)), False)


@pytest.fixture
def pairs(tmp_path: Path) -> Texts:
    (tmp_path / "text.tsv").write_text("".join(f"small words {i}\tkleine Wörter {i}\n" for i in range(60)))
    return read_texts(Source(train=(str(tmp_path / "text.tsv"),)), True)


def tokenizer(model: Transformer) -> Tokenizer:
    assert isinstance(model.tokenizer, Tokenizer)
    return model.tokenizer


def test_a_short_text_gets_its_characters_and_a_long_one_byte_pairs(
    texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = new(Recipe(), texts)
    assert short.config.dim == 128
    assert tokenizer(short).pieces(tokenizer(short).encode("of ω")) == ["o", "f", " ", "ω"]
    monkeypatch.setattr(module, "LARGE", 100)
    long = new(Recipe(), texts)
    assert long.config.dim == 384
    assert len(tokenizer(long).encode(" small words")) == 2
    assert tokenizer(long).decode(tokenizer(long).encode("ω")) == "ω", "never seen in training, but made of bytes"


@pytest.mark.parametrize("kind", ["byte", "char", "word", "bpe", "unigram"])
@pytest.mark.parametrize("task", ["lm", "mlm"])
def test_every_tokenizer_can_be_asked_for(kind, task, texts: Texts) -> None:
    model = new(Recipe(task=task, tokenizer=Vocabulary(kind=kind)), texts)
    assert model.last.form.vocab == len(tokenizer(model))
    assert tokenizer(model).decode(tokenizer(model).encode("line 3 of small words")) == "line 3 of small words"
    assert (tokenizer(model).mask is not None) == (task == "mlm")
    assert model.config.pad == tokenizer(model).pad


def test_languages_have_a_tokenizer_each_or_share_one(pairs: Texts) -> None:
    recipe = Recipe(task="translate")
    model = new(recipe, pairs)
    assert isinstance(model.tokenizer, Pair)
    assert model.tokenizer.encode("a", target=True)[0] == model.config.bos
    shared = new(replace(recipe, tokenizer=Vocabulary(shared=True, size=300)), pairs)
    assert len(tokenizer(shared)) == 300
    assert shared.encoder is not None
    assert shared.decoder is not None
    assert shared.encoder.embedding is shared.decoder.embedding
    assert shared.config.head is not None


def test_the_tokenizer_of_another_model_can_be_taken(texts: Texts, pairs: Texts, tmp_path: Path) -> None:
    for task, said in (("lm", texts), ("translate", pairs)):
        first = new(Recipe(task=task, tokenizer=Vocabulary(kind="byte")), said)
        save(first, tmp_path / task)
        again = new(Recipe(task=task, tokenizer=Vocabulary(start=str(tmp_path / task))), said)
        assert again.config == first.config
        assert again.tokenizer is not None
        assert first.tokenizer is not None
        assert again.tokenizer.encode("words ω", target=True) == first.tokenizer.encode("words ω", target=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty has no tokenizer; leave out recipe.tokenizer.start"):
        new(Recipe(tokenizer=Vocabulary(start=str(tmp_path / "empty"))), texts)


def test_the_recipe_says_how_wide_and_deep(texts: Texts, tmp_path: Path) -> None:
    model = new(Recipe(model=Model(dim=64, layers=2, dropout=0.3)), texts)
    assert model.config.decoder is not None
    assert (model.config.dim, len(model.config.decoder.layers), model.config.dropout) == (64, 2, 0.3)
    with pytest.raises(ValueError, match=r"recipe.model.dim is 100; heads are 64 wide, so it must be a multiple of 64"):
        new(Recipe(model=Model(dim=100)), texts)
    save(model, tmp_path / "model")
    again = new(Recipe(model=Model(config=str(tmp_path / "model" / "config.json"))), texts)
    assert again.config == model.config
    (tmp_path / "other.json").write_text('{"model_type": "other"}')
    with pytest.raises(ValueError, match="has model_type 'other'; a new model needs one that clearhead saved"):
        new(Recipe(model=Model(config=str(tmp_path / "other.json"))), texts)


def test_the_same_seed_gives_the_same_model(texts: Texts) -> None:
    def first(seed: int) -> torch.Tensor:
        return begin(Recipe(seed=seed, model=Model(dim=64, layers=1)), texts, ALONE).last.table

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


@pytest.mark.parametrize(
    ("kind", "task", "sentence"),
    [
        ("both", "lm", "the model is an encoder and a decoder, but lm needs a decoder alone; use train translate"),
        ("decoder", "mlm", "the model is a decoder alone, but mlm needs an encoder alone; use train lm"),
        ("encoder", "translate", "the model is an encoder alone, but translate needs an encoder and a decoder"),
        ("decoder", "lm", "the model has no tokenizer; save one beside its weights first"),
        ("encoder", "mlm", "the model's tokenizer has no mask token"),
    ],
)
def test_a_model_of_another_kind_is_refused(kind: str, task, sentence: str, texts: Texts, tmp_path: Path) -> None:
    model = small(kind)
    if kind == "encoder":
        model.tokenizer = new(Recipe(), texts).tokenizer
    save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=sentence):
        begin(Recipe(task=task, model=Model(start=str(tmp_path / "model"))), texts, ALONE)


def test_dropout_of_a_model_that_is_there_changes_without_its_config(texts: Texts) -> None:
    model = new(Recipe(model=Model(dim=64, layers=1)), texts).train()
    ids = torch.arange(4)[None]
    assert torch.equal(model(ids).logits, model(ids).logits)
    drop(model, 0.5)
    assert not torch.equal(model(ids).logits, model(ids).logits)
    assert model.config.dropout == 0.0
