"""Which head a folder has: by the class that config.json names, and by the tensors that are there."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.config import TextClassifier, TextEmbedding
from clearhead.families.fingerprint import answers
from families.folders import edit, rename
from truth.cases import case
from truth.heads import HEADS
from truth.homes import HOMES, randomised

Make = Callable[..., Path]


@pytest.fixture
def head(tmp_path: Path) -> Make:
    """head("BertForTokenClassification"): its folder."""

    def folder(name: str) -> Path:
        randomised({**HOMES, **HEADS}[name]()).save_pretrained(tmp_path / "h")
        return tmp_path / "h"

    return folder


@pytest.mark.parametrize(
    ("made", "named", "message"),
    [
        (
            "BertForTokenClassification",
            "BertModel",
            r"config.json names the architecture BertModel, but "
            r"classifier.bias is of the head of BertForSequenceClassification or BertForTokenClassification",
        ),
        (
            "BertModel",
            "BertForTokenClassification",
            r"names the architecture BertForTokenClassification, but classifier.bias of its head is not there and "
            r"pooler.dense.bias is of the head of BertModel or ",
        ),
        ("LlamaForSequenceClassification", "LlamaForCausalLM", r"score.weight is of the head of LlamaForSequenceClass"),
        ("llama", "LlamaModel", r"the architecture LlamaModel, but lm_head.weight is of .* LlamaForCausalLM"),
        ("llama", "LlamaForSequenceClassification", r"score.weight of .* and lm_head.weight is of"),
        ("BertForQuestionAnswering", "BertForSequenceClassification", r"qa_outputs.bias is of the head of BertForQ"),
        ("GPT2ForTokenClassification", "GPT2Model", r"classifier.bias is of the head of GPT2ForTokenClassification"),
    ],
)  # fmt: skip
def test_ckp_04_a_head_that_the_config_denies_or_the_reverse(head: Make, made: str, named: str, message: str) -> None:
    folder = head(made)
    edit(folder, architectures=[named])
    with pytest.raises(ValueError, match=message):
        clearhead.load(folder)


def test_more_labels_than_rows_are_refused(head: Make) -> None:
    folder = head("BertForSequenceClassification")
    edit(folder, id2label={str(i): f"label {i}" for i in range(5)})
    with pytest.raises(ValueError, match=r"classifier.weight is \[4, 20\] in the file, but the config says \[5, 20\]"):
        clearhead.load(folder)
    edit(folder, id2label={"1": "a", "2": "b"})
    with pytest.raises(ValueError, match=r"config.json numbers its labels 1, 2; expected 0 to 1"):
        clearhead.load(folder)
    edit(folder, id2label={"0": "a"}, problem_type="guessing")
    with pytest.raises(ValueError, match=r"problem_type to 'guessing'; known are single_label_classification, "):
        clearhead.load(folder)


def test_labels_without_names_are_numbered(head: Make) -> None:
    folder = head("BertForNextSentencePrediction")
    edit(folder, drop=("id2label", "label2id"))
    form = clearhead.load(folder).config.head
    assert isinstance(form, TextClassifier)
    assert form.labels == ("LABEL_0", "LABEL_1")
    edit(folder, _num_labels=7, id2label={"1": "b", "0": "a"})  # the former is a leftover in many published files
    form = clearhead.load(folder).config.head
    assert isinstance(form, TextClassifier)
    assert form.labels == ("a", "b")


def test_a_pooler_is_the_head_where_the_file_has_it(head: Make) -> None:
    folder = head("BertModel")
    form = clearhead.load(folder).config.head
    assert isinstance(form, TextEmbedding)
    assert form.pool == "first"
    rename(folder, lambda t: {name: value for name, value in t.items() if not name.startswith("pooler")})
    assert clearhead.load(folder).config.head is None


def test_a_pooler_in_a_file_with_the_familys_prefix(head: Make) -> None:
    """As files of other classes have it, whose config was edited to name the plain one."""
    folder = head("BertModel")
    ids = torch.tensor([[5, 6, 7]])

    def longer(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {f"bert.{name}": value for name, value in tensors.items()}

    plain = clearhead.load(folder)(ids).embedding
    rename(folder, longer)
    model = clearhead.load(folder)
    torch.testing.assert_close(model(ids).embedding, plain)
    clearhead.save(model, folder.parent / "again")
    torch.testing.assert_close(clearhead.load(folder.parent / "again")(ids).embedding, plain)


def test_another_config_is_saved_as_our_own_and_keeps_its_head(tmp_path: Path) -> None:
    from dataclasses import replace

    model = clearhead.load(case("BertForSequenceClassification").folder)
    model.config = replace(model.config, dropout=0.25)
    clearhead.save(model, tmp_path / "own")
    again = clearhead.load(tmp_path / "own")
    assert again.config == model.config
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(again(ids).logits, model(ids).logits)


@pytest.mark.parametrize("name", ["BartForSequenceClassification", "BertModel", "GPT2ForSequenceClassification"])
def test_a_model_with_any_head_has_a_fingerprint(name: str) -> None:
    found = answers(case(name).ours)
    assert found.shape[-1] == 16
    assert found.isfinite().all()
    assert found.std() > 0.01
