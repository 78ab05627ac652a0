"""Checkpoints: going on is the same as never having stopped, also in another process."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.families.load import load, save
from clearhead.families.store import read_tensors
from clearhead.model.transformer import Transformer
from clearhead.train.loop import TrainingArguments, train
from clearhead.train.optimizer import Rates
from clearhead.train.save import (
    RANDOM,
    Checkpoint,
    load_checkpoint,
    random_states,
    save_checkpoint,
    set_random_states,
)
from clearhead.train.schedule import cosine
from clearhead.train.spread import ALONE, Spread
from train.test_loop import copying
from train.test_loss import small

RATES = Rates(adamw=0.01, muon=0.02, decay=0.1)
ARGS = TrainingArguments(steps=6, rates=RATES, schedule=cosine(2, 6), save_every=3)


def fresh() -> Transformer:
    torch.manual_seed(0)
    return Transformer(replace(small("both").config, dropout=0.3))


def test_trn_03_three_steps_a_new_process_and_three_more_are_six(tmp_path: Path) -> None:
    whole = fresh()
    losses = train(whole, copying(0), ARGS, save=lambda c: c.step == 3 and save_checkpoint(c, tmp_path / "half")).losses
    save(whole, tmp_path / "whole")
    code = (
        "import sys, itertools, json, torch; torch.set_num_threads(1)\n"
        "from train.test_save import *\n"
        "start = load_checkpoint(sys.argv[1] + '/half', RATES)\n"
        "batches = itertools.islice(copying(0), 3, None)\n"
        "history = train(start.model, batches, ARGS, start=start)\n"
        "save(start.model, sys.argv[1] + '/resumed')\n"
        "print(json.dumps(history.losses))\n"
    )
    tests = str(Path(__file__).parents[1])
    second = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {tests!r})\n{code}", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert second.returncode == 0, second.stderr
    assert eval(second.stdout) == losses[3:]
    a, b = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "resumed"))
    assert a == b


def test_going_on_without_the_optimizers_state_would_differ(tmp_path: Path) -> None:
    whole = fresh()
    train(whole, copying(0), ARGS, save=lambda c: c.step == 3 and save_checkpoint(c, tmp_path / "half"))
    start = load_checkpoint(tmp_path / "half", RATES)
    forgetful = replace(ARGS, steps=3)
    train(start.model, itertools.islice(copying(0), 3, None), forgetful)
    assert not all(torch.equal(p, q) for p, q in zip(whole.parameters(), start.model.parameters(), strict=True))


def test_a_checkpoint_holds_five_files_without_pickle_and_loads_as_a_model(tmp_path: Path) -> None:
    model = fresh()
    train(model, copying(0), replace(ARGS, steps=3), save=lambda c: save_checkpoint(c, tmp_path / "c"))
    names = {p.name for p in (tmp_path / "c").iterdir()}
    assert names == {"config.json", "model.safetensors", "training.json", "training.safetensors"} | {RANDOM}
    assert all(torch.equal(p, q) for p, q in zip(load(tmp_path / "c").parameters(), model.parameters(), strict=True))


def test_trn_05_weights_only_can_be_started_from_but_not_resumed(tmp_path: Path) -> None:
    save(fresh(), tmp_path / "m")
    with pytest.raises(ValueError, match=r"holds weights only: start from them with `load`; going on needs"):
        load_checkpoint(tmp_path / "m", RATES)


def test_other_optimizers_are_refused(tmp_path: Path) -> None:
    model = fresh()
    train(model, copying(0), replace(ARGS, steps=3), save=lambda c: save_checkpoint(c, tmp_path / "c"))
    with pytest.raises(ValueError, match="was trained by 2 optimizers, but the rates name 1"):
        load_checkpoint(tmp_path / "c", Rates())


def test_saving_does_not_disturb_training(tmp_path: Path) -> None:
    quiet, saved = fresh(), fresh()
    train(quiet, copying(0), ARGS)
    torch.manual_seed(0)
    saved = fresh()
    train(saved, copying(0), ARGS, save=lambda c: save_checkpoint(c, tmp_path / "c"))
    assert all(torch.equal(p, q) for p, q in zip(quiet.parameters(), saved.parameters(), strict=True))
    assert isinstance(load_checkpoint(tmp_path / "c", RATES), Checkpoint)
    assert load_checkpoint(tmp_path / "c", RATES).step == 6


@pytest.mark.parametrize(("kind", "device"), [("cuda", "cuda:1"), ("mps", "mps")])
def test_the_random_state_of_the_device_in_use_is_saved_and_set_again(
    kind: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, asked, put = torch.arange(16, dtype=torch.uint8), list[Any](), list[Any]()

    def get(*where: str) -> Tensor:
        asked.append(where)
        return state

    module = getattr(torch, kind)
    monkeypatch.setattr(module, "get_rng_state", get)
    monkeypatch.setattr(module, "set_rng_state", lambda *given: put.append(given))
    there, where = Spread(device=device), (device,) if kind == "cuda" else ()
    save_checkpoint(Checkpoint(fresh(), [], 7), tmp_path / "c", there)
    assert asked == [where]
    saved = read_tensors(tmp_path / "c" / RANDOM)
    assert saved.keys() == {"0", f"0.{kind}"}
    expected = torch.rand(3)
    set_random_states(saved, there, 7)
    ((found, *device_of),) = put
    assert torch.equal(found, state)
    assert tuple(device_of) == where
    assert torch.equal(torch.rand(3), expected), "the processor's goes on too"


def test_on_another_device_it_goes_on_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    states = random_states(ALONE)
    expected = torch.rand(3)
    set_random_states({**states, "0.cuda": torch.zeros(16, dtype=torch.uint8)}, ALONE, 7)
    assert "this run was on cuda and goes on on cpu: dropout draws other numbers there" in caplog.text
    assert torch.equal(torch.rand(3), expected)
    caplog.clear()
    set_random_states(states, ALONE, 7)
    assert not caplog.text
    drawn = []
    for rank in (1, 2):
        set_random_states(states, Spread(rank=rank, ranks=3), 7)
        drawn.append(torch.rand(3))
    assert not torch.equal(*drawn), "processes that were not there before"
