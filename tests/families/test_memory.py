"""What loading takes: tensors come one at a time out of mapped files, so the peak is the model and one tensor."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.config import Attention, FeedForward, Layer, Stack, TransformerConfig

CODE = """
import sys, torch, clearhead
from clearhead.families.load import load

def megabytes(field):
    lines = open('/proc/self/status').read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024

small = load(sys.argv[2])  # everything is imported and used once
open('/proc/self/clear_refs', 'w').write('5')  # the peak so far is forgotten
before = megabytes('VmRSS')
model = load(sys.argv[1], dtype=getattr(torch, sys.argv[3]))
total = sum(float(p.double().sum()) for p in model.parameters())  # every page is touched
print(megabytes('VmHWM') - before)
"""


def made(folder: Path, dim: int) -> Path:
    layer = Layer(self_attention=Attention(heads=8, causal=True), feed_forward=FeedForward(dim=4 * dim))
    config = TransformerConfig(dim=dim, decoder=Stack(layers=(layer,) * 10, vocab=2000))
    with torch.random.fork_rng():
        clearhead.save(clearhead.Transformer(config), folder)
    return folder


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of memory")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ckp_loading_takes_the_weights_and_one_tensor(dtype: str, tmp_path: Path) -> None:
    large, small = made(tmp_path / "large", 512), made(tmp_path / "small", 16)
    stored = (large / "model.safetensors").stat().st_size / 2**20
    weights = stored if dtype == "float32" else stored / 2
    largest = 2048 * 512 * 8 / 2**20  # one matrix summed in float64
    call = [sys.executable, "-c", CODE, str(large), str(small), dtype]
    peak = float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    assert 0.9 * weights < peak < 1.1 * weights + 2 * largest
