"""The model that a data set gets: its tokenizer and width by the size of the data."""

import pytest
import torch

from clearhead.train import task as module
from clearhead.train.score import evaluate
from clearhead.train.task import Continuation, Translation

TEXT = "".join(f"line {i} of small words\n" for i in range(60))


def test_a_short_text_gets_its_characters_and_a_long_one_byte_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Continuation(TEXT + "ω").new()
    assert short.tokenizer is not None
    assert short.config.dim == 128
    assert short.tokenizer.pieces(short.tokenizer.encode("of ω")) == ["o", "f", " ", "ω"]
    monkeypatch.setattr(module, "LARGE", 100)
    long = Continuation(TEXT + "ω").new()
    assert long.tokenizer is not None
    assert long.config.dim == 384
    assert len(long.tokenizer.encode(" small words")) == 2
    assert long.tokenizer.decode(long.tokenizer.encode("ω")) == "ω", "never seen in training, but made of bytes"


def test_the_same_seed_gives_the_same_model() -> None:
    def new(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return Translation(["a b"] * 3, ["c d"] * 3).new().last.table

    assert torch.equal(new(1), new(1))
    assert not torch.equal(new(1), new(2))


def test_bits_per_byte_of_a_model_that_knows_nothing_are_those_of_its_vocabulary() -> None:
    task = Continuation("abcd" * 500)
    model = task.new().eval()
    for parameter in model.parameters():
        parameter.data.zero_()
    score = evaluate(model, task.data(model).validation)
    assert score.tokens == task.kept_bytes == 99
    assert score.bits_per_byte(task.kept_bytes) == pytest.approx(torch.tensor(7.0).log2().item(), rel=1e-5)


def test_a_translation_is_scored_by_all_its_target_tokens() -> None:
    task = Translation([f"number {i}" for i in range(60)], [f"Zahl {i}" for i in range(60)])
    model = task.new().eval()
    assert model.tokenizer is not None
    expected = sum(len(model.tokenizer.encode(f"Zahl {i}", target=True)) - 1 for i in (57, 58, 59))  # without bos
    assert evaluate(model, task.data(model).validation).tokens == expected
    assert task.kept_bytes == 3 * len("Zahl 57\n")
    assert set(task.sample(model)) == {"source", "sample", "target"}
