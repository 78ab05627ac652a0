"""What a question may be asked about: texts, ids, pairs, arguments."""

from dataclasses import replace

import pytest
import torch

from clearhead.config import TextClassifier
from clearhead.lens.inputs import arguments, at_rest, names, wanted
from clearhead.text.build import word_tokenizer
from clearhead.text.pair import Pair
from lens.random_models import IDS, KINDS, both, made

SOURCE, TARGET = word_tokenizer(["a b c d"], eos=True), word_tokenizer(["v x y z"], bos=True, eos=True)


def test_a_text_that_goes_on_does_not_end_in_eos_but_one_with_a_label_does() -> None:
    model = made(replace(KINDS["gpt2"], eos=2))
    model.tokenizer = TARGET
    x = TARGET.encode("x")
    assert arguments(model, "x")["input_ids"].tolist() == [x[:-1]]
    two = arguments(model, ["x y", "x"])
    assert two["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    judge = made(replace(model.config, head=TextClassifier(labels=("a", "b"), pool="last")))
    judge.tokenizer = TARGET
    assert arguments(judge, "x")["input_ids"].tolist() == [x]


def test_a_decoder_beside_an_encoder_reads_the_target_shifted() -> None:
    model = made(both())
    model.tokenizer = Pair(SOURCE, TARGET)
    given = arguments(model, ("a b", "x y"))
    begin, x, y, end = TARGET.encode("x y")
    assert given["input_ids"].tolist() == [SOURCE.encode("a b")]
    assert given["decoder_input_ids"].tolist() == [[begin, x, y]]
    assert wanted(model, "x y").tolist() == [[x, y, end]]
    assert torch.equal(
        arguments(model, (IDS, torch.tensor([x, y, end])))["decoder_input_ids"], given["decoder_input_ids"]
    )
    assert arguments(model, "a b")["decoder_input_ids"].tolist() == [[begin]]


def test_names_are_those_of_the_side_that_reads() -> None:
    model = made(both())
    assert names(model, torch.tensor([4]), "encoder") == ["4"]
    model.tokenizer = Pair(SOURCE, TARGET)
    assert names(model, torch.tensor(SOURCE.encode("b")), "encoder") == ["b", "</s>"]
    assert names(model, torch.tensor(TARGET.encode("x")), "decoder") == ["<s>", "x", "</s>"]


def test_ids_and_arguments_go_in_as_they_are() -> None:
    model = made(KINDS["gpt2"])
    assert torch.equal(arguments(model, IDS[0])["input_ids"], IDS)
    mask = torch.ones_like(IDS)
    assert arguments(model, {"input_ids": IDS, "attention_mask": mask}).keys() == {"input_ids", "attention_mask"}


def test_what_cannot_be_read_is_refused() -> None:
    model = made(KINDS["gpt2"])
    with pytest.raises(ValueError, match="inputs is a pair"):
        arguments(model, (IDS, IDS))
    with pytest.raises(ValueError, match="inputs holds a cache"):
        arguments(model, {"input_ids": IDS, "cache": object()})
    with pytest.raises(ValueError, match=r"config\.start and config\.bos are None"):
        arguments(made(replace(both(), bos=None)), (IDS, IDS))


def test_at_rest_gives_every_mode_back_also_after_an_error() -> None:
    model = made(KINDS["gpt2"]).train()
    model.decoder.eval()

    def fail() -> None:
        with at_rest(model):
            assert not model.training
            assert not torch.is_grad_enabled()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert model.training
    assert not model.decoder.training
