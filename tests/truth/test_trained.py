"""Trained models of the home library answer here as they do there: four families, unseen numbers."""

from typing import Any

import pytest
import torch
from transformers import GenerationMixin

import clearhead
from clearhead.demo.spell import spell
from truth import trained
from truth.cases import difference

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", trained.HOMES)
@torch.no_grad()
def test_a_trained_model_answers_as_at_home(name: str) -> None:
    folder, drawn = trained.trained(name), trained.unseen(200)
    home, ours = type(trained.HOMES[name]()).from_pretrained(folder).eval(), clearhead.load(folder)
    given: dict[str, Any] = {**trained.source(name, drawn), "max_new_tokens": 24}
    theirs = GenerationMixin.generate(home, **given, do_sample=False)
    mine = clearhead.generate(ours, **given)
    assert isinstance(mine, torch.Tensor)
    assert torch.equal(mine, theirs)
    found = trained.answers(name, given["input_ids"], mine)
    right = [text == spell(int(n), "de") for text, n in zip(found, drawn, strict=True)]
    assert sum(right) > 100, f"{name} has not learned it: {sum(right)} of 200"
    few = {key: value[:40] for key, value in trained.source(name, drawn).items()}
    beams: dict[str, Any] = {**few, "max_new_tokens": 24, "num_beams": 4}
    theirs, mine = GenerationMixin.generate(home, **beams, do_sample=False), clearhead.generate(ours, **beams)
    assert isinstance(mine, torch.Tensor)
    # Its beams fill up what has ended with eos where pad is 0.
    assert torch.equal(*(ids.masked_fill(ids == trained.END, trained.PAD) for ids in (mine, theirs)))


@pytest.mark.parametrize("name", trained.HOMES)
@torch.no_grad()
def test_a_trained_model_has_the_logits_that_it_has_at_home(name: str) -> None:
    folder = trained.trained(name)
    home, ours = type(trained.HOMES[name]()).from_pretrained(folder).eval(), clearhead.load(folder)
    batch = trained.lesson(name, trained.unseen(100))
    asked = batch["labels"] != -100
    mine, theirs = ours(**batch), home(**batch)
    assert mine.logits is not None
    assert difference(mine.logits[asked], theirs.logits[asked]) < 1e-5
    torch.testing.assert_close(mine.loss, theirs.loss, rtol=1e-4, atol=1e-5)
