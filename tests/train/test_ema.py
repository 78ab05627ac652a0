"""The moving average of the weights: its definition, and a run that gives it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.families.load import load
from clearhead.families.store import read_tensors
from clearhead.train import run as running
from clearhead.train.ema import averaged, follow, mean_of
from clearhead.train.folder import CHECKPOINT, read_log
from clearhead.train.loop import TrainingArguments, train
from clearhead.train.loss import Batch
from clearhead.train.optimizer import Rates
from clearhead.train.recipe import Recipe, recipe_of
from clearhead.train.run import run
from clearhead.train.save import MEAN, WEIGHTS, Checkpoint
from clearhead.train.schedule import cosine
from train.runs import recipe_for, state, text_in
from train.test_loop import copying
from train.test_loss import small

DECAY = 0.75


def test_the_mean_is_what_its_definition_says() -> None:
    model = small("both")
    name = "encoder.layers.0.feed_forward.up.weight"
    mean, expected = mean_of(model), model.get_parameter(name).detach().numpy().copy()
    for _ in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        follow(mean, model, DECAY)
        expected = DECAY * expected + (1 - DECAY) * model.get_parameter(name).detach().numpy()
    assert np.abs(mean[name].numpy() - expected).max() < 1e-15
    shown = averaged(model, mean)
    assert torch.equal(shown.get_parameter(name), mean[name])
    assert averaged(model, None) is model
    assert shown.config == model.config


def test_training_itself_is_the_same_to_the_bit_and_what_is_frozen_is_not_copied() -> None:
    both = {}
    for decay in (0.0, DECAY):
        torch.manual_seed(0)
        model, seen = small("both"), list[Checkpoint]()
        rates = Rates(adamw=0.01, frozen=("encoder.*",))
        args = TrainingArguments(steps=3, rates=rates, schedule=cosine(1, 3), ema=decay)
        train(model, copying(0), args, save=seen.append)
        both[decay] = model, seen[-1].mean
    assert all(torch.equal(p, q) for p, q in zip(both[0.0][0].parameters(), both[DECAY][0].parameters(), strict=True))
    assert both[0.0][1] is None
    assert set(both[DECAY][1]) == {n for n, _ in both[DECAY][0].named_parameters() if not n.startswith("encoder.")}


def with_mean(place: Path, **save: Any) -> Recipe:
    asked = {"every": 2, "ema": DECAY, **save}
    return recipe_for(text_in(place), save=asked, watch={"evaluate_every": 2, "sample_every": 3})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ema")
    run(with_mean(place), place / "run")
    return place / "run"


def test_the_run_gives_the_mean_and_was_scored_by_it(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    assert report["given"] == "the moving average"
    assert report["validation_loss"] == pytest.approx(read_log(finished)[-1]["validation_loss"], abs=1e-9)
    mean, weights = (read_tensors(finished / CHECKPOINT / name) for name in (MEAN, WEIGHTS))
    model = dict(load(finished).named_parameters())
    assert model.keys() == mean.keys() == weights.keys()
    assert all(torch.equal(model[name], mean[name]) for name in mean)
    assert not any(torch.equal(weights[name], mean[name]) for name in mean)


def test_trn_03_stopped_and_gone_on_with_it_comes_to_the_same_bytes(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = running.stream

    def interrupted(*given: Any) -> Iterator[Batch]:
        for i, batch in enumerate(real(*given), 1):
            if i == 3:
                signal.raise_signal(signal.SIGTERM)
            yield batch

    monkeypatch.setattr(running, "stream", interrupted)
    assert run(with_mean(finished.parent), tmp_path / "run") is None
    monkeypatch.undo()
    assert run(with_mean(finished.parent), tmp_path / "run", resume=True) is not None
    assert state(tmp_path / "run") == state(finished)
    for name in (MEAN, WEIGHTS):
        assert (tmp_path / "run" / CHECKPOINT / name).read_bytes() == (finished / CHECKPOINT / name).read_bytes()


def test_the_mean_of_an_adapter_is_an_adapter(finished: Path, tmp_path: Path) -> None:
    lora = {"rank": 2, "targets": ["*attention.q.weight"]}
    recipe = recipe_for(
        text_in(tmp_path),
        model={"start": str(finished), "lora": lora},
        optimizer={"adamw": 0.05},
        save={"ema": DECAY, "keep_best": True},
        watch={"evaluate_every": 6},
    )
    run(recipe, tmp_path / "run")
    ids = torch.tensor([[3, 4, 5]])
    ours, theirs = load(tmp_path / "run"), load(tmp_path / "run" / "adapter")
    assert (ours(ids).logits - theirs(ids).logits).abs().max() < 1e-5
    mean = read_tensors(tmp_path / "run" / CHECKPOINT / MEAN)
    assert {name.rsplit(".", 1)[1] for name in mean} == {"down", "up"}


def test_two_means_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match=r"save.average is 2 and save.ema 0.9, two means; leave one of them out"):
        recipe_of({"save": {"average": 2, "keep": 2, "ema": 0.9}})
    with pytest.raises(ValueError, match=r"save.ema is 1.0; it must be below 1"):
        recipe_of({"save": {"ema": 1}})
