"""Several processes train as one does: the same losses and weights, whoever has saved and however many go on."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.distributed import is_gloo_available

from clearhead.families.load import load
from clearhead.train.folder import read_log
from clearhead.train.recipe import write_recipe
from clearhead.train.run import run
from clearhead.train.save import RANDOM
from clearhead.train.spread import check_device, spread
from train import ranks
from train.ranks import HALF, STEPS
from train.runs import recipe_for, text_in

KINDS = ["ddp", "fsdp"]
BOUNDS = {"float64": 1e-12, "float32": 1e-6}


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def surroundings() -> dict[str, str]:
    """Of a process that finds the tests, and computes on one thread."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


class Runs(NamedTuple):
    folder: Path
    alone: dict[str, list[float]]  # losses by type
    together: dict[str, list[float]]  # losses by run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """One process in this one, then two under torchrun, which also go on from what the one has saved."""
    if not is_gloo_available():
        pytest.skip("this torch has no gloo, by which processes talk on a CPU")
    folder = tmp_path_factory.mktemp("ranks")
    alone = {dtype: ranks.run(folder, "alone", dtype) for dtype in ranks.DTYPES}
    done = together("train.ranks", str(folder))
    assert done.returncode == 0, done.stderr
    return Runs(folder, alone, json.loads((folder / "losses.json").read_text()))


def weights(folder: Path) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in load(folder).named_parameters()}


def furthest(a: Path, b: Path) -> float:
    first, second = weights(a), weights(b)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", BOUNDS)
def test_trn_09_two_processes_have_the_losses_and_weights_of_one(runs: Runs, kind: str, dtype: str) -> None:
    bound = BOUNDS[dtype]
    assert runs.together[f"{kind}-{dtype}"] == pytest.approx(runs.alone[dtype], rel=bound)
    assert len(set(runs.alone[dtype])) == STEPS
    assert furthest(runs.folder / f"{kind}-{dtype}-{STEPS}", runs.folder / f"alone-{dtype}-{STEPS}") < 10 * bound


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_process_saved_two_go_on_with(runs: Runs, kind: str) -> None:
    assert runs.together[f"{kind}-resumed"] == pytest.approx(runs.alone["float64"][HALF:], rel=1e-12)
    assert furthest(runs.folder / f"{kind}-resumed-float64-{STEPS}", runs.folder / f"alone-float64-{STEPS}") < 1e-11


@pytest.mark.parametrize("kind", KINDS)
def test_what_two_processes_saved_one_goes_on_with(runs: Runs, kind: str, tmp_path: Path) -> None:
    begun = runs.folder / f"{kind}-float64-{HALF}"
    assert {file.name for file in begun.iterdir()} == {
        *("config.json", "model.safetensors", "training.json", "training.safetensors", RANDOM)
    }
    assert ranks.run(tmp_path, "on", "float64", begun=begun) == pytest.approx(runs.alone["float64"][HALF:], rel=1e-12)
    assert furthest(tmp_path / f"on-float64-{STEPS}", runs.folder / f"alone-float64-{STEPS}") < 1e-11


def test_trn_09_tied_tables_are_one_after_a_sharded_run(runs: Runs) -> None:
    model = load(runs.folder / f"fsdp-float64-{STEPS}")
    assert model.encoder is not None
    assert model.decoder is not None
    assert model.encoder.table is model.decoder.table
    assert model.head is not None
    assert not [name for name, _ in model.named_parameters() if name.startswith("head")]


def test_frozen_parameters_stay_with_all_kinds(runs: Runs) -> None:
    (name,) = ranks.RATES.frozen
    begun = dict(ranks.tied(torch.float64).named_parameters())[name]
    for kind in (*KINDS, "alone"):
        found = weights(runs.folder / f"{kind}-float64-{STEPS}")
        assert torch.equal(found[name], begun)
        assert not torch.equal(found[name.replace("bias", "weight")], begun)


@pytest.mark.slow
def test_the_command_under_torchrun_stops_together_and_goes_on_alone(tmp_path: Path) -> None:
    adamw = {"muon": 0}  # Muon works in bf16, which would widen differences
    alone = recipe_for(
        text_in(tmp_path), model={"dim": 64, "layers": 1}, optimizer=adamw, steps=40, save={"every": 100}
    )
    expected = run(alone, tmp_path / "alone")
    write_recipe(replace(alone, spread="fsdp"), tmp_path / "recipe.yaml")
    words = ["-m", "clearhead", "train", "run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, *TORCHRUN, *words], env=surroundings(), stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and len(read_log(tmp_path / "run")) < 3:
        time.sleep(0.01)
    process.terminate()
    said = process.communicate(timeout=120)[1]
    step = json.loads((tmp_path / "run" / "checkpoint" / "training.json").read_text())["step"]
    assert 3 <= step < 40, said
    assert len(read_log(tmp_path / "run")) == step
    assert not (tmp_path / "run" / "report.json").exists()
    found = run(alone, tmp_path / "run", resume=True)
    assert expected is not None
    assert found is not None
    assert found["validation_loss"] == pytest.approx(expected["validation_loss"], rel=1e-5)
    losses = [[line["loss"] for line in read_log(tmp_path / name)] for name in ("run", "alone")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recipe that two processes have run."""
    if not is_gloo_available():
        pytest.skip("this torch has no gloo, by which processes talk on a CPU")
    folder = tmp_path_factory.mktemp("shared")
    write_recipe(recipe_for(text_in(folder), tokenizer={"kind": "unigram", "size": 300}), folder / "recipe.yaml")
    done = together("train.ranks_ids", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def together(*words: str) -> "subprocess.CompletedProcess[str]":
    """Two processes, which must end in time."""
    line = [sys.executable, *TORCHRUN, "-m", *words]
    return subprocess.run(line, env=surroundings(), capture_output=True, text=True, timeout=300)


def test_one_process_makes_the_tokenizer_and_the_ids_that_both_read(shared: Path) -> None:
    first, second = (json.loads((shared / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert first["made"] == ["tokenizer", "ids", "ids"]
    assert second["made"] == []
    assert first["ids"] == second["ids"]
    assert len(set(first["ids"])) == 2, "training and validation"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "holds a run; add --resume to go on with it"),
        ({"cache": "recipe.yaml"}, "could not be written: File exists; make room, or name another data.cache"),
        ({"train": "nowhere.txt"}, "nowhere.txt cannot be read: No such file or directory"),
    ],
)
def test_what_stops_one_process_ends_both_with_one_sentence(
    shared: Path, data: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    recipe = recipe_for(shared / "text.txt")
    places = {name: str(shared / value) for name, value in data.items()}
    write_recipe(replace(recipe, data=replace(recipe.data, **places)), tmp_path / "recipe.yaml")
    place = tmp_path / "run" if data else shared / "run"
    done = together("clearhead", "train", "run", str(tmp_path / "recipe.yaml"), "--out", str(place))
    assert done.returncode != 0
    said = done.stderr.split("\n")
    assert [line.startswith("clearhead: ") for line in said if sentence in line] == [True]
    assert "clearhead/train" not in done.stderr, "no traceback of ours"


def test_a_device_that_is_not_there_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="device is cuda:3, but this machine has 2 CUDA devices, counted from 0"):
        check_device("cuda:3")
    with pytest.raises(ValueError, match="device 'nowhere' cannot be used here"):
        check_device("nowhere")


def test_one_process_cannot_be_sharded() -> None:
    with (
        pytest.raises(ValueError, match="spread is fsdp, but there is 1 process; start several with torchrun"),
        spread("fsdp"),
    ):
        pass


@pytest.mark.parametrize("name", ["one_node.sh", "two_nodes.sh", "slurm.sh"])
def test_the_launch_scripts_are_shell_and_start_the_command(name: str) -> None:
    script = Path(__file__).parents[2] / "examples" / name
    if not script.exists():
        pytest.skip("the examples are not here: this is an installed package")
    assert subprocess.run(["sh", "-n", script], capture_output=True).returncode == 0
    assert '-m clearhead train run "$recipe" --out "$folder"' in script.read_text()
