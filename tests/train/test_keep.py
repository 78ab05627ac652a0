"""What is kept: the last models, the best, their mean; and no run begins where there is no room for it."""

import json
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from clearhead.families.load import load, save
from clearhead.train import keep as module
from clearhead.train.folder import read_log
from clearhead.train.keep import BEST, check_space, keep, kept, write_mean
from clearhead.train.optimizer import Rates, moments, optimizers
from clearhead.train.recipe import Saving
from clearhead.train.run import run
from train.runs import recipe_for, text_in
from train.test_loss import small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that keeps three, averages two and has its best at some step."""
    place = tmp_path_factory.mktemp("kept")
    recipe = recipe_for(
        text_in(place),
        steps=8,
        save={"every": 2, "keep": 3, "average": 2, "keep_best": True},
        watch={"evaluate_every": 1},
        optimizer={"adamw": 0.05, "muon": 0.3},
    )
    run(recipe, place / "run")
    return place / "run"


def test_the_last_models_are_kept_and_load(folder: Path) -> None:
    assert [place.name for place in kept(folder)] == ["00000004", "00000006", "00000008"]
    newest, last = (dict(load(place).named_parameters()) for place in (kept(folder)[-1], folder / "checkpoint"))
    assert all(torch.equal(newest[name], last[name]) for name in last)
    assert not [file for place in kept(folder) for file in place.iterdir() if file.name.startswith("training")]


def test_the_better_of_mean_and_best_is_given(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    scores = {line["step"]: line["validation_loss"] for line in read_log(folder)}
    assert len(scores) == 8
    assert report["validation_loss"] <= min(scores.values()) + 1e-9
    assert report["given"] in ("the mean of the last 2 checkpoints", "the best by validation loss")
    source = folder / BEST
    if report["given"].startswith("the mean"):
        write_mean(kept(folder)[-2:], folder.parent / "mean")
        source = folder.parent / "mean"
    assert (folder / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    assert not (folder / ".mean").exists()


def test_the_mean_of_models_is_the_mean_of_each_weight(tmp_path: Path) -> None:
    models = [small("both").float() for _ in range(3)]
    for i, model in enumerate(models):
        save(model, tmp_path / str(i))
    write_mean([tmp_path / str(i) for i in range(3)], tmp_path / "mean")
    mean = load(tmp_path / "mean")
    for name, found in mean.named_parameters():
        expected = sum(model.get_parameter(name).detach().double() for model in models) / 3
        assert torch.equal(found.detach(), expected.float()), name
    with pytest.raises(ValueError, match="there is no checkpoint to average"):
        write_mean([], tmp_path / "none")


def test_keeping_is_repeated_without_harm_and_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    save(small("decoder"), tmp_path / "checkpoint")
    (tmp_path / "kept" / ".00000001.new-half").mkdir(parents=True)
    for step in (2, 2, 4, 6, 6):
        keep(tmp_path, step, 2)
    assert sorted(place.name for place in (tmp_path / "kept").iterdir()) == ["00000004", "00000006"]
    keep(tmp_path, 8, 1)
    assert kept(tmp_path) == []


def test_trn_02_no_room_is_said_before_the_first_step_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 0, 10_000))
    with pytest.raises(ValueError, match=r"run has 10\.0 kB free, but checkpoints need \d\.\d MB; make room"):
        run(recipe_for(text_in(tmp_path)), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_what_is_needed_is_what_a_checkpoint_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small("both").float()
    movers = optimizers(model, Rates())
    weights = sum(4 * p.numel() for p in model.parameters())
    assert moments(movers) == 2 * weights
    usage = namedtuple("usage", "total used free")
    needed = 3 * weights + weights
    for begun, amount in ((True, needed), (False, 2 * needed + 4 * weights + 2 * weights)):
        monkeypatch.setattr(module.shutil, "disk_usage", lambda _, amount=amount: usage(0, 0, amount))
        check_space(tmp_path, model, movers, Saving(keep=5, keep_best=True), begun=begun)
        monkeypatch.setattr(module.shutil, "disk_usage", lambda _, amount=amount: usage(0, 0, amount - 1))
        with pytest.raises(ValueError, match="free, but checkpoints need"):
            check_space(tmp_path, model, movers, Saving(keep=5, keep_best=True), begun=begun)
