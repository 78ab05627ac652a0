"""The other heads against their home library: the same answers and losses, and files that it can read again."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import clearhead
from clearhead.config import AnswerSpan, TextClassifier, TextEmbedding, TokenClassifier
from model.test_model_flips import flips
from truth.cases import LIMIT, Case, case, difference, result, text
from truth.heads import HEADS, LABELS
from truth.homes import HOMES
from truth.test_flips import noticed

each = pytest.mark.parametrize("name", HEADS)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def batch(c: Case, tokens: int = 23) -> Tensor:
    """Two texts; the token that ends one stands in them where a head looks for it."""
    ids = text(2, tokens)
    if getattr(c.ours.config.head, "pool", None) == "eos":
        ids[:, 3], ids[:, 6] = c.ours.config.eos_ids[0], c.ours.config.eos_ids[0]
    return ids


def close(mine: Tensor, theirs: Tensor, limit: float = LIMIT) -> None:
    assert mine.shape == theirs.shape
    assert 0.5 < float(theirs.abs().max()) < 20
    assert difference(mine, theirs) <= limit


def whole(c: Case) -> bool:
    """Whether the answer is one for the whole text."""
    return isinstance(c.ours.config.head, TextClassifier | TextEmbedding)


@each
@pytest.mark.parametrize("tokens", [9, 44])
def test_ckp_01_answers_are_the_home_librarys(name: str, tokens: int) -> None:
    c = case(name)
    ids = batch(c, tokens)
    close(c.mine(input_ids=ids), c.theirs(input_ids=ids))


@each
def test_the_kind_of_head_follows_from_the_class(name: str) -> None:
    head = case(name).ours.config.head
    kinds = {"Sequence": TextClassifier, "Token": TokenClassifier, "Question": AnswerSpan, "Model": TextEmbedding}
    assert isinstance(head, next((kinds[key] for key in kinds if key in name), TextClassifier))
    if isinstance(head, TextClassifier | TokenClassifier):
        assert head.labels == (("next", "random") if "Next" in name else tuple(LABELS.values()))


@each
def test_right_padding(name: str) -> None:
    c = case(name)
    ids, mask = batch(c), torch.ones(2, 23, dtype=torch.int64)
    ids[1, 15:], mask[1, 15:] = c.pad, 0
    mine, theirs = c.mine(input_ids=ids, attention_mask=mask), c.theirs(input_ids=ids, attention_mask=mask)
    close(mine, theirs) if whole(c) else close(mine[mask.bool()], theirs[mask.bool()])


@each
def test_pos_06_left_padding_is_the_unpadded_sample(name: str) -> None:
    c = case(name)
    alone, fill = batch(c)[1:], torch.full((1, 8), c.pad)
    ids = torch.cat([batch(c, 31)[:1], torch.cat([fill, alone], dim=1)])
    mask = torch.ones_like(ids)
    mask[1, :8] = 0
    mine = c.mine(input_ids=ids, attention_mask=mask)[1:]
    close(mine if whole(c) else mine[:, 8:], c.theirs(input_ids=alone))


@each
def test_bf16_is_near(name: str) -> None:
    c = case(name)
    ids = batch(c)
    found = result(clearhead.load(c.folder, dtype=torch.bfloat16)(ids))
    assert found.dtype == torch.bfloat16
    theirs = c.theirs(input_ids=ids)
    home = c.answer(copy.deepcopy(c.home).bfloat16()(input_ids=ids)).float()
    close(found.float(), theirs, max(0.3, 1.1 * difference(home, theirs)))  # no farther than its home library


def asked(c: Case) -> tuple[Tensor, dict[str, Tensor]]:
    """Labels for ours and for theirs."""
    head = c.ours.config.head
    if isinstance(head, AnswerSpan):
        ends = torch.tensor([[3, 5], [0, 22]])
        return ends, {"start_positions": ends[:, 0], "end_positions": ends[:, 1]}
    if isinstance(head, TokenClassifier):
        labels = torch.arange(46).view(2, 23) % 4
        labels[0, 2:9] = -100
    else:
        labels = torch.tensor([1, 0])
    return labels, {"labels": labels}


@pytest.mark.parametrize("name", [name for name in HEADS if not name.endswith("Model")])
def test_losses_are_the_home_librarys(name: str) -> None:
    c = case(name)
    ids, (labels, theirs) = batch(c), asked(c)
    expected = c.home(input_ids=ids, **theirs).loss
    c.home.config.problem_type = None  # it writes there what it has guessed from the labels
    torch.testing.assert_close(c.ours(ids, labels=labels).loss, expected, atol=1e-5, rtol=1e-5)


NUMBERS: dict[str, tuple[str | None, int, Tensor]] = {
    "one number": (None, 1, torch.tensor([0.3, -2.0])),
    "numbers": ("regression", 2, torch.tensor([[0.3, -2.0], [1.5, 0.0]])),
    "any labels": ("multi_label_classification", 3, torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "LlamaForSequenceClassification"])
def test_losses_of_numbers_and_of_any_labels(kind: str, name: str, tmp_path: Path) -> None:
    problem, count, labels = NUMBERS[kind]
    config = type(case(name).home.config)(**case(name).home.config.to_dict())
    config.num_labels, config.problem_type = count, problem
    home = type(case(name).home)(config).eval()
    home.save_pretrained(tmp_path)
    ours = clearhead.load(tmp_path)
    head = ours.config.head
    assert isinstance(head, TextClassifier)
    assert head.answer == ("any" if kind == "any labels" else "number")
    expected = home(batch(case(name)), labels=labels).loss
    torch.testing.assert_close(ours(batch(case(name)), labels=labels).loss, expected, atol=1e-5, rtol=1e-5)


@each
def test_save_goes_back_home(name: str, tmp_path: Path) -> None:
    c = case(name)
    clearhead.save(c.ours, tmp_path / "m")
    before, after = (load_file(folder / "model.safetensors") for folder in (c.folder, tmp_path / "m"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    again, info = type(c.home).from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not [key for values in info.values() for key in values], info
    ids = batch(c)
    assert torch.equal(Case(again.eval(), c.ours, tmp_path).theirs(input_ids=ids), c.theirs(input_ids=ids))
    assert torch.equal(result(clearhead.load(tmp_path / "m")(ids)), c.mine(input_ids=ids))


@each
def test_every_setting_of_the_head_is_noticed(name: str) -> None:
    c = case(name)
    ids = batch(c, 44)[:1]
    if getattr(c.ours.config.head, "pool", None) == "not_pad":
        ids[:, -2:] = c.pad
    runs, weights = [({"input_ids": ids}, c.theirs(input_ids=ids))], dict(c.ours.named_parameters())
    flipped = [(path, config) for path, config in flips(c.ours.config) if path.startswith("head")]
    idle = [path for path, config in flipped if not noticed(config, weights, runs)]
    assert flipped
    assert not noticed(c.ours.config, weights, runs)
    assert not idle, idle


def test_every_family_with_texts_has_a_proven_head() -> None:
    """All classes that a family file names stand here or in homes.py."""
    from clearhead.families.known import FAMILIES

    named = {name for family in FAMILIES.values() for name in family.architectures if "For" in name}
    proven = {name.split(",")[0] for name in HEADS} | {type(case(name).home).__name__ for name in HOMES}
    assert sorted(name for name in named - proven if name.endswith(("Classification", "Answering"))) == []
