"""Looking and changing where two processes train one model: replicated (DDP) and sharded (FSDP2)."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, multiprocessing
from torch.distributed import is_gloo_available

from lens.ranks import RANKS, looked, work
from model.tiny import ALL, build

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_gloo_available(), reason="this torch has no gloo, by which processes talk on a CPU"),
]
KINDS = ["relative_translator", "rotary_decoder"]


@pytest.fixture(scope="module", params=[(w, k) for w in ("replicated", "sharded") for k in KINDS], ids=" ".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What both processes found together, and what each of them finds with a model of its own."""
    wrapper, kind = request.param
    folder: Path = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(work, (folder, wrapper, kind), nprocs=RANKS)
    together = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(RANKS)]
    return together, [looked(build(ALL[kind]()).float(), kind, rank) for rank in range(RANKS)]


def same(a: tuple[Tensor, dict[str, Tensor]], b: tuple[Tensor, dict[str, Tensor]]) -> bool:
    assert a[1].keys() == b[1].keys()
    return torch.equal(a[0], b[0]) and all(torch.equal(a[1][name], b[1][name]) for name in a[1])


def test_ins_12_recording_changes_no_bit_of_output_or_gradient(run: tuple[Any, Any]) -> None:
    for found in run[0]:
        assert same(found["recorded"], found["plain"])
        assert same(found["again"], found["plain"]), "a trace is left"


def test_each_process_records_its_own_text(run: tuple[Any, Any]) -> None:
    for mine, alone in zip(*run, strict=True):
        assert mine["seen"].keys() == alone["seen"].keys()
        for address, value in alone["seen"].items():
            assert torch.allclose(mine["seen"][address], value, atol=1e-6), address
        assert mine["slopes"].keys() == alone["slopes"].keys()
        for address, value in alone["slopes"].items():
            assert torch.allclose(mine["slopes"][address], value, atol=1e-6), address
    first, second = run[0]
    assert not torch.equal(first["seen"]["logits"], second["seen"]["logits"])


@pytest.mark.parametrize("site", ["heads", "weights"])
def test_an_edit_works_and_gradients_are_the_mean_over_processes(run: tuple[Any, Any], site: str) -> None:
    together, alone = run
    mean = {name: sum(one[site][1][name] for one in alone) / RANKS for name in alone[0][site][1]}
    for mine, own in zip(together, alone, strict=True):
        assert torch.allclose(mine[site][0], own[site][0], atol=1e-5)
        assert not torch.allclose(mine[site][0], mine["plain"][0], atol=1e-3)
        assert mine[site][1].keys() == mean.keys()
        for name, grad in mine[site][1].items():
            assert torch.allclose(grad, mean[name], atol=1e-5), name
