"""Weight files: shards, links, damage."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import clearhead
from families.folders import logits

Make = Callable[..., Path]


def test_shards_are_read_as_one_file(make: Make) -> None:
    whole = logits(make("llama"))
    folder = make("llama", max_shard_size="3KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert len(list(folder.glob("*.safetensors"))) > 3
    assert torch.equal(logits(folder), whole)


@pytest.fixture
def sharded(make: Make) -> tuple[Path, dict[str, str]]:
    folder = make("llama", max_shard_size="3KB")
    return folder, json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]


def remap(folder: Path, weight_map: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize(
    "name", ["../elsewhere/w.safetensors", "/tmp/w.safetensors", "a\\w.safetensors", "..", "w.bin"]
)
def test_ckp_12_a_shard_is_a_plain_name(sharded: tuple[Path, dict[str, str]], name: str) -> None:
    folder, shards = sharded
    remap(folder, {**shards, "model.norm.weight": name})
    with pytest.raises(ValueError, match=r"shards are plain .safetensors files in the folder"):
        clearhead.load(folder)


@pytest.mark.parametrize("way", ["shard", "whole"])
def test_ckp_12_a_link_out_of_the_folder_is_refused(make: Make, tmp_path: Path, way: str) -> None:
    folder = make("llama", **({"max_shard_size": "3KB"} if way == "shard" else {}))
    inside = sorted(folder.glob("*.safetensors"))[0]
    inside.rename(tmp_path / "outside.safetensors")
    inside.symlink_to(tmp_path / "outside.safetensors")
    with pytest.raises(ValueError, match="is a link out of the folder"):
        clearhead.load(folder)


def test_ckp_12_the_links_of_a_hub_cache_are_followed(make: Make, tmp_path: Path) -> None:
    folder, blobs = make("llama"), tmp_path / "models--x" / "blobs"
    snapshot = tmp_path / "models--x" / "snapshots" / "1f2e"
    for place in (snapshot, blobs):
        place.mkdir(parents=True)
    for file in folder.iterdir():
        file.rename(blobs / f"hash-{file.name}")
        (snapshot / file.name).symlink_to(blobs / f"hash-{file.name}")
    assert clearhead.load(snapshot).decoder is not None


def test_index_and_shards_must_agree(sharded: tuple[Path, dict[str, str]]) -> None:
    folder, shards = sharded
    other = next(file for file in shards.values() if file != shards["model.norm.weight"])
    remap(folder, {**shards, "model.norm.weight": other})
    with pytest.raises(ValueError, match=r"says that model.norm.weight is in .*, but it is not there"):
        clearhead.load(folder)
    for broken in ({}, [], {"a": 1}):
        remap(folder, broken)
        with pytest.raises(ValueError, match="has no weight_map of tensor names to file names"):
            clearhead.load(folder)
    remap(folder, shards)
    save_file({"model.norm.weight": torch.zeros(2)}, folder / "twice.safetensors")
    remap(folder, {**shards, "lm_head.bias": "twice.safetensors"})
    with pytest.raises(ValueError, match=r"model.norm.weight is in .* it must be in one file"):
        clearhead.load(folder)
    (folder / "twice.safetensors").unlink()
    with pytest.raises(ValueError, match=r"twice.safetensors is missing"):
        clearhead.load(folder)


def test_ckp_11_a_damaged_file_is_named(make: Make) -> None:
    folder = make("llama")
    file = folder / "model.safetensors"
    data = file.read_bytes()
    for broken in (data[:-5], data + b"12345", (2**63).to_bytes(8, "little") + data[8:], b"\xff" * 8 + data[8:], b""):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
            clearhead.load(folder)


def test_ckp_13_pickles_are_not_opened(make: Make) -> None:
    folder = make("llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"is a pickle, which can run code .*`clearhead convert"):
        clearhead.load(folder)


def test_ckp_11_a_name_that_stands_twice(make: Make) -> None:
    file = make("llama") / "model.safetensors"
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = (
        data[8 : 8 + size]
        .rstrip()
        .replace(b"{", b'{"model.norm.weight":{"dtype":"F32","shape":[24],"data_offsets":[0,96]},', 1)
    )
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])
    with pytest.raises(ValueError, match=r"'model.norm.weight' is there twice"):
        clearhead.load(file.parent)


def test_changing_a_loaded_model_leaves_the_file_alone(make: Make) -> None:
    folder = make("llama")
    before = (folder / "model.safetensors").read_bytes()
    model = clearhead.load(folder)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(1.0)
    assert (folder / "model.safetensors").read_bytes() == before
    assert not torch.equal(clearhead.load(folder).decoder.embedding.weight, model.decoder.embedding.weight)


def test_a_model_may_be_saved_where_it_came_from(make: Make) -> None:
    folder = make("llama")
    plain = logits(folder)
    clearhead.save(clearhead.load(folder), folder)
    assert torch.equal(logits(folder), plain)
