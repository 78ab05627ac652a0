"""Conversion: the same model out of pickled weights, GGUF files and folders; and pickles that hold something else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file

import clearhead
from clearhead.families.convert import convert
from clearhead.families.fingerprint import FILE, answers, probe, read_fingerprint
from clearhead.families.presets import small_encoder, small_lm, small_translator
from clearhead.families.unpickle import CODES, tensors_of, write_each
from clearhead.model.transformer import Transformer
from clearhead.text.build import word_tokenizer
from families.folders import logits
from families.gguf_files import sizes, write
from truth.cases import close, text
from truth.homes import randomised

Make = Callable[..., Path]


def pickle_in(folder: Path, shards: int = 1, **options: Any) -> None:
    """Put pickles in place of the folder's safetensors."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = list(weights)
    if shards == 1:
        torch.save(weights, folder / "pytorch_model.bin", **options)
        return
    where = {}
    for i in range(shards):
        file = f"pytorch_model-{i + 1:05d}-of-{shards:05d}.bin"
        part = {name: weights[name] for name in names[i::shards]}
        torch.save(part, folder / file)
        where |= dict.fromkeys(part, file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_pickled_weights_come_out_the_same(
    name: str, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, shards = make(name), 1 + len(name) % 3
    before = load_file(folder / "model.safetensors")
    pickle_in(folder, shards)
    convert(folder, tmp_path / "out")
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert capsys.readouterr().out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "out"], "nothing else is left"
    assert not list((tmp_path / "out").glob("*.bin*"))
    again = getattr(hf, json.loads((folder / "config.json").read_text())["architectures"][0])
    again.from_pretrained(tmp_path / "out")


def test_an_old_pickle_which_cannot_be_mapped(make: Make, tmp_path: Path) -> None:
    """And the tokenizer beside it."""
    folder = make("gpt2")
    word_tokenizer(["one two"], eos=True).save(folder)
    before = logits(folder)
    pickle_in(folder, _use_new_zipfile_serialization=False)
    convert(folder, tmp_path / "out")
    assert torch.equal(logits(tmp_path / "out"), before)
    assert clearhead.load(tmp_path / "out").tokenizer.encode("two one") == [4, 3, 2]


def test_one_matrix_under_two_names(make: Make, tmp_path: Path) -> None:
    folder = make("gpt2")
    before = logits(folder)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["transformer.wte.weight"]
    torch.save(weights, tmp_path / "w.bin")
    list(write_each(folder / "model.safetensors", tensors_of(tmp_path / "w.bin")))
    assert torch.equal(logits(folder), before)


def test_every_type_is_written_as_it_is(tmp_path: Path) -> None:
    made = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in CODES}
    made |= {"turned": torch.arange(6.0).reshape(2, 3).T, "none": torch.zeros(0, 3), "one": torch.tensor(2.5)}
    assert list(write_each(tmp_path / "w.safetensors", made)) == list(made)
    found = load_file(tmp_path / "w.safetensors")
    assert all(torch.equal(found[name], made[name]) and found[name].dtype == made[name].dtype for name in made)


def test_load_points_to_convert(make: Make) -> None:
    folder = make("gpt2")
    pickle_in(folder)
    with pytest.raises(ValueError, match=rf"is a pickle, .* `clearhead convert {folder} OUT`"):
        clearhead.load(folder)


class Payload:
    def __init__(self, call: Any, *given: Any) -> None:
        self.given = call, given

    def __reduce__(self) -> Any:
        return self.given


def test_ckp_13_a_payload_is_refused_and_not_run(make: Make, tmp_path: Path) -> None:
    folder, trap = make("gpt2"), tmp_path / "trapped"
    weights: Any = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({**weights, "x": Payload(os.system, f"touch {trap}")}, folder / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"pytorch_model\.bin asks for (posix|os)\.system, .* it was not run"
    ) as caught:
        convert(folder, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert trap.exists(), "the trap works"


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("place", ["value", "key", "whole", "inside"])
def test_ckp_13_wherever_the_payload_is(zipped: bool, place: str, tmp_path: Path) -> None:
    trap, weights = tmp_path / "trapped", {"a": torch.zeros(2)}
    bomb: Any = Payload(exec, f"open({str(trap)!r}, 'w')")
    payload = {"value": {**weights, "x": bomb}, "key": {bomb: 1, **weights}, "whole": bomb, "inside": [weights, [bomb]]}
    torch.save(payload[place], tmp_path / "w.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"w\.bin asks for [\w.]*exec"):
        tensors_of(tmp_path / "w.bin")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([torch.zeros(2)], r"holds a list, not tensors"),
        ({"state_dict": {"a": torch.zeros(2)}}, r"holds 'state_dict', which is no plain tensor but a dict"),
        ({"a": torch.zeros(2), "step": 3}, r"holds 'step', which is no plain tensor but a int"),
        ({1: torch.zeros(2)}, r"holds 1, which"),
        ({"a": torch.zeros(2).to_sparse()}, r"holds 'a', which is no plain tensor"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, r"holds 'a', which is no plain tensor"),
    ],
)
def test_what_is_no_table_of_tensors(content: Any, sentence: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.bin")
    with pytest.raises(ValueError, match=sentence):
        tensors_of(tmp_path / "w.bin")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no more", b"\x80\x02garbage", b"\0" * 1000])
def test_a_damaged_pickle(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"w\.bin is") as caught:
        tensors_of(tmp_path / "w.bin")
    assert "\n" not in str(caught.value)


def test_a_pickle_that_ends_early(make: Make, tmp_path: Path) -> None:
    folder = make("gpt2")
    pickle_in(folder)
    whole = (folder / "pytorch_model.bin").read_bytes()
    for size in (100, 5000, len(whole) - 50):
        (folder / "pytorch_model.bin").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"pytorch_model\.bin (is damaged|is more)"):
            tensors_of(folder / "pytorch_model.bin")


@pytest.mark.parametrize(("name", "sentence"), [("../w.bin", "plain .bin files"), ("gone.bin", "gone.bin is missing")])
def test_ckp_12_shards_are_files_of_the_folder(name: str, sentence: str, make: Make, tmp_path: Path) -> None:
    folder = make("gpt2")
    pickle_in(folder)
    (folder / "pytorch_model.bin").rename(tmp_path / "w.bin")
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ValueError, match=sentence):
        convert(folder, tmp_path / "out")


def test_safetensors_go_before_pickles(make: Make) -> None:
    folder = make("gpt2")
    before = logits(folder)
    (folder / "pytorch_model.bin").write_bytes(b"never opened")
    assert torch.equal(logits(folder), before)


@torch.no_grad()
def test_a_gguf_file_becomes_a_folder(tmp_path: Path) -> None:
    home = write(tmp_path / "m.gguf", randomised(hf.LlamaForCausalLM(hf.LlamaConfig(**sizes()))), "llama")
    convert(tmp_path / "m.gguf", tmp_path / "out", dtype=torch.bfloat16)
    weights, wanted = load_file(tmp_path / "out" / "model.safetensors"), home.state_dict()
    assert all(torch.equal(value, wanted[name].bfloat16()) for name, value in weights.items())
    again = hf.LlamaForCausalLM.from_pretrained(tmp_path / "out")
    assert again.dtype == torch.bfloat16
    exact = hf.LlamaForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    close(clearhead.load(tmp_path / "out", dtype=torch.float32)(text(2, 9)).logits, exact(text(2, 9)).logits)


OWN = {
    "lm": lambda: small_lm(29, 64),
    "encoder": lambda: small_encoder(37, 64),
    "two": lambda: small_translator(23, 41, 64),
}


@pytest.mark.parametrize("name", OWN)
def test_the_fingerprint_says_what_the_model_answers(name: str, tmp_path: Path) -> None:
    model = Transformer(OWN[name]()).eval()
    clearhead.save(model, tmp_path / "m")
    convert(tmp_path / "m", tmp_path / "out")
    stored = read_fingerprint(tmp_path / "out")
    assert stored is not None
    assert torch.equal(torch.tensor(stored["answers"]), answers(model))
    assert stored["config"] == json.loads(json.dumps(model.config.to_dict()))
    assert list(stored["weights"]) == ["model.safetensors"]
    assert read_fingerprint(tmp_path / "m") is None
    (tmp_path / "out" / FILE).write_text("{}")
    with pytest.raises(ValueError, match=r"clearhead\.json is no fingerprint"):
        read_fingerprint(tmp_path / "out")


def test_the_probe_has_no_padding_and_fits_the_tables() -> None:
    for form in (small_encoder(37, 64), small_translator(23, 41, 64)):
        asked = probe(form, 700)
        for name, ids in asked.items():
            assert not (ids == form.pad).any()
            vocab = form.stacks["decoder" if name.startswith("decoder") or form.encoder is None else "encoder"].vocab
            assert int(ids.max()) < vocab
    assert probe(small_encoder(37, 64), 700)["input_ids"].shape == (1, 512)


def test_a_conversion_that_fails_leaves_what_was_there(make: Make, tmp_path: Path) -> None:
    folder = make("gpt2")
    convert(folder, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="damaged"):
        convert(folder, tmp_path / "out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before
    with pytest.raises(ValueError, match="give another folder to write in"):
        convert(tmp_path / "out", tmp_path / "m" / ".." / "out")
