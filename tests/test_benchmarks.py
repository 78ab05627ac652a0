"""The benchmarks run at toy size, and what they report has the promised structure. No timing is asserted."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"
NAMES = ("measure", "peers", "model", "attention")

# What the other libraries warn about is not ours to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script.:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The scripts as modules, under names of their own: `model` is also a folder of tests."""
    monkeypatch.syspath_prepend(str(FOLDER))  # they import `measure` and `peers` by bare name
    fast_path = torch.backends.mha.get_fastpath_enabled()
    yield {name: loaded(name) for name in NAMES}
    torch.backends.mha.set_fastpath_enabled(fast_path)
    for name in NAMES:
        sys.modules.pop(name if name in ("measure", "peers") else f"benchmarks_{name}")


def loaded(name: str) -> ModuleType:
    if name in ("measure", "peers"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("work", ["decoder", "translator"])
def test_every_peer_gets_the_same_work(scripts: dict[str, ModuleType], work: str) -> None:
    """Equal sizes within 2 % (some have bias vectors that others lack), equal shapes, finite logits."""
    size = scripts["model"].SMALL[work]
    make, batch_of = scripts["model"].MAKERS[work]
    batch = batch_of(size)
    parameters: dict[str, int] = {}
    for name, peer in make(size).items():
        logits = peer.logits(batch)
        assert logits.shape == (size.batch, size.tokens, size.vocab), name
        assert bool(logits.isfinite().all()), name
        parameters[name] = sum(p.numel() for p in peer.model.parameters())
    assert {"clearhead", "plain block"} < set(parameters)
    assert max(parameters.values()) < 1.02 * min(parameters.values()), parameters


def test_ours_and_the_plain_block_agree_when_given_the_same_weights(scripts: dict[str, ModuleType]) -> None:
    peers, size = scripts["peers"], scripts["model"].SMALL["decoder"]
    both = peers.decoders(size)
    ours, plain = both["clearhead"].model, both["plain block"].model
    blocks, ends = plain[0], plain[1]
    with torch.no_grad():
        ends.table.weight.copy_(ours.decoder.embedding.weight)
        ends.places.weight.copy_(ours.decoder.positions.table.weight)
        for layer, block in zip(ours.decoder.layers, blocks, strict=True):
            attention = layer.self_attention
            block.qkv.weight.copy_(torch.cat([m.weight for m in (attention.q, attention.k, attention.v)]))
            block.qkv.bias.zero_()
            block.out.load_state_dict(attention.o.state_dict())
            block.up.load_state_dict(layer.feed_forward.up.state_dict())
            block.down.load_state_dict(layer.feed_forward.down.state_dict())
    batch = peers.lm_batch(size)
    torch.testing.assert_close(both["clearhead"].logits(batch), both["plain block"].logits(batch))


@pytest.mark.parametrize(
    ("dtype", "part"), [("fp32", "forward"), ("bf16", "forward"), ("bf16", "step"), ("fp32", "step")]
)
def test_a_comparison_reports_every_peer(scripts: dict[str, ModuleType], dtype: str, part: str) -> None:
    module = scripts["model"]
    rows = module.compare("translator", dtype, part, module.SMALL, 2, "wall")
    assert {"clearhead", "plain block", "nn.Transformer"} < {r["peer"] for r in rows}
    for row in rows:
        assert 0 < row["low"] <= row["seconds"] <= row["high"]
        assert row["rounds"] == 2
        assert row["limit_gflops"] > 0
    assert min(r["ratio"] for r in rows if not r["peer"].startswith("clearhead")) == 1.0
    assert [r["seconds"] for r in rows] == sorted(r["seconds"] for r in rows)
    shown = module.show(rows)
    assert all(r["peer"] in shown for r in rows)


def test_the_operations_of_a_product_are_counted(scripts: dict[str, ModuleType]) -> None:
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert scripts["model"].operations(lambda: a @ b) == 2 * 3 * 5 * 7


def test_attention_is_measured_in_time_and_memory(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    module = scripts["attention"]
    rows = module.compare(16, "causal", "bf16", True, 1, "cpu")
    assert [r["way"] for r in rows] == ["F.sdpa", "clearhead", "fused", "blocks", "open"]
    for row in rows:
        row["megabytes"] = 1.0
    assert "16 x 1" in module.show(rows)
    file = tmp_path / "deep" / "result.json"
    scripts["measure"].save(file, {"rows": rows})
    assert file.read_text().startswith("{")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process its peak memory")
def test_peak_memory_sees_the_weights_that_the_open_way_writes_down(scripts: dict[str, ModuleType]) -> None:
    """8 heads of 512 x 512 scores in float32 are 8.4 MB; the kernel keeps none of them."""
    fused, opened = (scripts["attention"].peak((way, 512, "full", "fp32", False, 1)) for way in ("fused", "open"))
    assert opened > 8.4
    assert fused < 0.5 * opened


@pytest.mark.parametrize("way", ["clearhead", "fused", "blocks", "open"])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_the_measured_ways_compute_the_same(scripts: dict[str, ModuleType], way: str, mask: str) -> None:
    q, k, v = (torch.randn(2, 8, 16, 64) for _ in range(3))
    found = scripts["attention"].ways(16, mask)
    torch.testing.assert_close(found[way](q, k, v), found["F.sdpa"](q, k, v))
