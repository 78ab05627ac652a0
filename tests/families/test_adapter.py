"""Adapters as the peft library writes them: what is written is what its modules take, and what comes back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

import clearhead
from clearhead.families.adapter import DOWN, SETTINGS, UP, WEIGHTS, Adapter, merge, read_adapters, write_adapters
from clearhead.families.load import load, save
from clearhead.model.transformer import Transformer
from truth.homes import HOMES, gpt2, llama, randomised
from truth.homes import t5 as two_stacks

FAMILIES = [name for name in HOMES if name != "gemma3, with pictures"]  # its modules have had several names
PATTERN = ("q.weight", "v.weight", "up.weight", "gate.weight")


def drawn(model: Transformer, rank: int = 3) -> dict[str, Adapter]:
    """An adapter for some matrices of attention and feed-forward."""
    chance = torch.Generator().manual_seed(5)
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    found = {}
    for name in (f"{name}.weight" for name in names):
        if name.endswith(PATTERN) and "head." not in name:
            rows, columns = model.get_parameter(name).shape
            down = torch.randn(rank, columns, generator=chance) * 0.2
            found[name] = Adapter(down, torch.randn(rows, rank, generator=chance) * 0.2, 0.5)
    return found


def answers(model: Any, two: bool) -> Tensor:
    ids = torch.arange(14, 22)[None]
    with torch.no_grad():
        out = model(ids, **({"decoder_input_ids": ids[:, 1:5]} if two else {}))
    for name in ("logits", "hidden", "last_hidden_state"):
        if getattr(out, name, None) is not None:
            return getattr(out, name)
    raise AssertionError("it says nothing")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_adapter_fits_a_module_of_the_home_library(name: str, make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make(name)
    model, home = load(folder), randomised(HOMES[name]())
    adapters = drawn(model)
    write_adapters(adapters, model, tmp_path / "a", "base")
    said, tensors = json.loads((tmp_path / "a" / SETTINGS).read_text()), load_file(tmp_path / "a" / WEIGHTS)
    modules = dict(home.named_modules())
    for module in said["target_modules"]:
        down, up = (tensors[f"base_model.model.{module}{end}"] for end in (DOWN, UP))
        rank, alpha = said["rank_pattern"].get(module, said["r"]), said["alpha_pattern"].get(module, said["lora_alpha"])
        assert rank == len(down)
        assert alpha / rank == pytest.approx(0.5)
        assert isinstance(modules[module], Conv1D) == said["fan_in_fan_out"]
        delta = alpha / rank * (up @ down)
        modules[module].weight.data += delta.T if said["fan_in_fan_out"] else delta
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    merge(tmp_path / "a", model)
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(before[name], parameter)}
    assert changed == set(adapters)
    for matrix, one in adapters.items():
        expected = before[matrix].detach().numpy().astype(np.float64)
        expected = expected + 0.5 * one.up.numpy().astype(np.float64) @ one.down.numpy()
        assert np.abs(model.get_parameter(matrix).detach().numpy() - expected).max() < 1e-6
    if model.config.encoder is None or model.config.encoder.audio is None:
        two = len(model.config.stacks) == 2
        assert (answers(model, two) - answers(home, two)).abs().max() < 2e-5


def test_a_folder_with_an_adapter_loads_as_the_model_with_it(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make("llama")
    model = load(folder)
    write_adapters(drawn(model), model, tmp_path / "a", str(folder))
    merge(tmp_path / "a", model)
    for found in (clearhead.load(tmp_path / "a"), clearhead.load(tmp_path / "a", base=folder)):
        assert torch.equal(answers(found, False), answers(model, False))
    save(found, tmp_path / "again")
    assert torch.equal(answers(load(tmp_path / "again"), False), answers(model, False))
    with pytest.raises(ValueError, match=r"base='x' is for an adapter, but .* has no adapter_config.json"):
        load(folder, base="x")


def test_weights_of_another_type_keep_it(make: Callable[..., Path], tmp_path: Path) -> None:
    model = load(make("llama"))
    write_adapters(drawn(model), model, tmp_path / "a", "base")
    half = load(tmp_path / "m", dtype=torch.bfloat16)
    merge(tmp_path / "a", half)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    assert (answers(half, False).float() - answers(load(tmp_path / "a", base=tmp_path / "m"), False)).abs().max() < 0.3


def test_a_hand_made_adapter_of_the_other_spellings(make: Callable[..., Path], tmp_path: Path) -> None:
    """One for the first layer's q only, with its own strength by a pattern, scaled by the root of its rank."""
    folder, a, b = make("llama"), torch.arange(48.0).view(2, 24) / 48, torch.arange(120.0).view(60, 2) / 120
    (tmp_path / "a").mkdir()
    module = "model.layers.0.self_attn.q_proj"
    tensors = {f"base_model.model.{module}{end}": value for end, value in ((DOWN, a), (UP, b))}
    save_file(tensors, tmp_path / "a" / WEIGHTS)
    said = {"peft_type": "LORA", "r": 8, "lora_alpha": 1, "alpha_pattern": {"0.self_attn.q_proj": 6}}
    (tmp_path / "a" / SETTINGS).write_text(json.dumps({**said, "use_rslora": True}))
    before, after = load(folder), load(tmp_path / "a", base=folder)
    name = "decoder.layers.0.self_attention.q.weight"
    expected = before.get_parameter(name).detach().numpy() + 6 / np.sqrt(2) * b.numpy() @ a.numpy()
    assert np.abs(after.get_parameter(name).detach().numpy() - expected).max() < 1e-6
    with pytest.raises(ValueError, match=r"does not name the model it belongs to; give it: load\(..., base=MODEL\)"):
        load(tmp_path / "a")


@pytest.mark.parametrize(
    ("settings", "tensor", "sentence"),
    [
        ({"use_dora": True}, None, "sets use_dora to True; this version runs False"),
        ({"peft_type": "IA3"}, None, "sets peft_type to 'IA3'; this version runs 'LORA'"),
        ({"bias": "all"}, None, "sets bias to 'all'"),
        ({"init_lora_weights": "pissa"}, None, "sets init_lora_weights to 'pissa'"),
        ({}, "base_model.model.model.layers.0.self_attn.q_proj.bias", "q_proj.bias, which is no LoRA of a matrix"),
        ({}, f"base_model.model.model.layers.9.mlp.up_proj{DOWN}", "for which there is no module in the model"),
    ],
)
def test_what_is_not_a_plain_adapter_is_refused_by_name(
    settings: dict[str, Any], tensor: str | None, sentence: str, make: Callable[..., Path], tmp_path: Path
) -> None:
    model = load(make("llama"))
    write_adapters(drawn(model), model, tmp_path / "a", "base")
    said = json.loads((tmp_path / "a" / SETTINGS).read_text())
    (tmp_path / "a" / SETTINGS).write_text(json.dumps({**said, **settings}))
    if tensor is not None:
        tensors = load_file(tmp_path / "a" / WEIGHTS)
        save_file({**tensors, tensor: torch.zeros(3, 24)}, tmp_path / "a" / WEIGHTS)
    with pytest.raises(ValueError, match=sentence):
        read_adapters(tmp_path / "a", model)


def test_an_adapter_of_another_size_is_refused_with_both_sizes(make: Callable[..., Path], tmp_path: Path) -> None:
    model = load(make("llama"))
    write_adapters(drawn(model), model, tmp_path / "a", "base")
    other = load(save_of(llama(hidden_size=12), tmp_path / "other"))
    with pytest.raises(ValueError, match=r"gate_proj.weight is for a matrix \[28, 24\], but the model's is \[28, 12\]"):
        read_adapters(tmp_path / "a", other)


def save_of(home: Any, folder: Path) -> Path:
    home.save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore")  # two libraries of different dates
@pytest.mark.parametrize("kind", [llama, gpt2, two_stacks])
def test_the_peft_library_reads_what_is_written_and_the_other_way_round(
    kind: Callable[[], Any], tmp_path: Path
) -> None:
    peft: Any = pytest.importorskip("peft", reason="peft is not installed (pip install peft)")
    home = randomised(kind())
    model = load(save_of(home, tmp_path / "m"))
    two = len(model.config.stacks) == 2
    write_adapters(drawn(model), model, tmp_path / "a", str(tmp_path / "m"))
    theirs = peft.PeftModel.from_pretrained(home, tmp_path / "a").eval()
    ours = load(tmp_path / "a")
    assert (answers(theirs, two) - answers(ours, two)).abs().max() < 1e-5
    assert (answers(ours, two) - answers(model, two)).abs().max() > 1e-2
    theirs.save_pretrained(tmp_path / "b")
    assert (answers(load(tmp_path / "b", base=tmp_path / "m"), two) - answers(theirs, two)).abs().max() < 1e-5
