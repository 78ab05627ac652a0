"""A look at one text: every head of every attention, for the three kinds of model."""

import json
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.demo.run import Plan, run
from clearhead.demo.task import Task
from clearhead.lens.record import record
from clearhead.model.transformer import Transformer
from clearhead.view.look import as_text, look


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    folder = tmp_path_factory.mktemp("look") / "m"
    run(Plan(task=Task(), steps=2), folder, progress=False)
    return clearhead.load(folder)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("look") / "lm"
    run(Plan(task=Task(kind="lm"), steps=2), folder, progress=False)
    return folder


TEXT = "three hundred and seven"


def test_a_table_of_all_heads(translator: Transformer) -> None:
    found = look(translator, TEXT, "dreihundertsieben", stat="max")
    plain = found.to_dict()
    assert [part["name"] for part in plain["parts"]] == ["encoder", "decoder", "cross"]
    json.dumps(plain)
    cross = plain["parts"][2]
    given = {"input_ids": translator.tokenizer(TEXT)["input_ids"]}  # type: ignore[misc]
    assert len(cross["keys"]) == given["input_ids"].shape[1]
    assert cross["queries"] == plain["parts"][1]["queries"]
    assert "max of each head" in repr(found)
    assert "\x1b" not in repr(found)


@torch.no_grad()
def test_the_numbers_are_the_models(translator: Transformer) -> None:
    found = look(translator, TEXT, "dreihundertsieben", heads=[(0, 2)], stat="entropy", top=3)
    ids = translator.tokenizer(TEXT)["input_ids"]  # type: ignore[misc]
    target = translator.tokenizer("dreihundertsieben", target=True)["input_ids"]  # type: ignore[misc]
    with record(translator, "*.weights") as seen:
        translator(ids, decoder_input_ids=target[:, :-1])
    for part, address in zip(
        found.to_dict()["parts"], ("encoder.0.self", "decoder.0.self", "decoder.0.cross"), strict=True
    ):
        view = seen[f"{address}.weights"]
        assert torch.allclose(torch.tensor(part["heads"][0]), view.entropy()[0].mean(-1))
        values, keys = view.top(3)
        (shown,) = part["shown"]
        assert (shown["layer"], shown["head"]) == (0, 2)
        for query, row in enumerate(shown["top"]):
            assert [cell["key"] for cell in row] == keys[0, 2, query].tolist()
            assert [cell["weight"] for cell in row] == pytest.approx(values[0, 2, query].tolist())
            assert [cell["token"] for cell in row] == [part["keys"][cell["key"]] for cell in row]


def test_without_a_target_it_is_what_the_model_writes(translator: Transformer) -> None:
    found = look(translator, TEXT)
    written = clearhead.generate(translator, translator.tokenizer(TEXT)["input_ids"], max_new_tokens=64)  # type: ignore[misc]
    assert found.parts[1].queries == translator.tokenizer.pieces(written[0, :-1])  # type: ignore[union-attr]


def test_a_decoder_alone(writer: Path) -> None:
    found = look(clearhead.load(writer), f"{TEXT} = ", heads=[(0, 0)])
    assert [part.name for part in found.parts] == ["decoder"]
    assert "decoder, layer 0, head 0" in as_text(found, 80, colour=False)


def test_a_long_text_is_shown_by_its_largest_weights(translator: Transformer) -> None:
    found = look(translator, " ".join([TEXT] * 20), "drei", heads=[(0, 1)], top=2)
    picture = as_text(found, 80, colour=False)
    assert picture.count("%") >= 2 * 80


BAD = {
    "stat": ({"stat": "mean"}, "stat='mean'; there are entropy"),
    "head": ({"heads": [(9, 0)]}, r"there is no 9\.0 \(layer\.head, from 0\); encoder: \d layers of \d heads"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused(name: str, translator: Transformer) -> None:
    more, problem = BAD[name]
    with pytest.raises(ValueError, match=problem):
        look(translator, TEXT, **more)  # type: ignore[arg-type]


def test_a_target_for_one_stack_is_refused(writer: Path) -> None:
    with pytest.raises(ValueError, match="to is given, but this model has one stack only"):
        look(clearhead.load(writer), TEXT, "drei")


def test_an_empty_text_is_refused(translator: Transformer) -> None:
    with pytest.raises(ValueError, match="the text is empty; give some words"):
        look(translator, "  ")
