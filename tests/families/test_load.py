"""Save and load: bit for bit, and nothing taken on trust."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.families.load import load, save
from clearhead.families.presets import PRESETS, gpt2, original, preset, small_encoder, small_lm, small_translator
from clearhead.families.store import read_json, read_tensors, write_json, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.text.build import word_tokenizer

SMALL = {
    "original": lambda: original(31, 16, 2, 24, dropout=0.1),
    "gpt2": lambda: replace(gpt2(2, 16, 2), bos=None, eos=None),
    "lm": lambda: small_lm(29, 64),
    "encoder": lambda: small_encoder(37, 64),
    "translator": lambda: small_translator(23, 41, 64),
}


@pytest.mark.parametrize("name", SMALL)
def test_round_trip_is_bit_equal(name: str, tmp_path: Path) -> None:
    model = Transformer(SMALL[name]()).eval()
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.config == model.config
    ids = torch.tensor([[3, 4, 5, 6]])
    extra = {"decoder_input_ids": ids} if model.encoder is not None and model.decoder is not None else {}
    assert torch.equal(again(ids, **extra).logits, model(ids, **extra).logits)
    assert not again.training
    if model.config.shared_embeddings:
        assert again.encoder.embedding is again.decoder.embedding
        names = read_tensors(tmp_path / "m" / "model.safetensors")
        assert "decoder.embedding.weight" not in names


def test_dtype_on_load_and_tokenizer(tmp_path: Path) -> None:
    model = Transformer(small_lm(29, 64))
    model.tokenizer = word_tokenizer(["one two"], eos=True)
    save(model, tmp_path / "m")
    again = clearhead.load(tmp_path / "m", dtype=torch.bfloat16)
    assert {p.dtype for p in again.parameters()} == {torch.bfloat16}
    assert again.tokenizer.encode("two one") == model.tokenizer.encode("two one")


def test_saved_files_hold_no_pickle(tmp_path: Path) -> None:
    save(Transformer(small_lm(29, 64)), tmp_path / "m")
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["config.json", "model.safetensors"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(Transformer(small_lm(29, 64)), tmp_path / "m")
    return tmp_path / "m"


def test_missing_folder_and_missing_files(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        load(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors is missing"):
        load(folder)


def test_ckp_04_names_must_match_exactly(folder: Path) -> None:
    tensors = read_tensors(folder / "model.safetensors")
    write_tensors(folder / "model.safetensors", {f"model.{name}": t for name, t in tensors.items()})
    with pytest.raises(ValueError, match=r"missing: decoder\..*not expected: model\.decoder"):
        load(folder)


def test_shapes_must_match(folder: Path) -> None:
    content = read_json(folder / "config.json")
    content["decoder"]["vocab"] = 30
    write_json(folder / "config.json", content)
    with pytest.raises(ValueError, match=r"embedding.weight is \[29, 64\] in the file, but the config says \[30, 64\]"):
        load(folder)


def test_unknown_fields_and_kinds_are_refused(folder: Path) -> None:
    content = read_json(folder / "config.json")
    write_json(folder / "config.json", {**content, "droput": 0.1})
    with pytest.raises(ValueError, match=r"config.droput is not a field .* did you mean 'dropout'"):
        load(folder)
    write_json(folder / "config.json", {**content, "model_type": "unheard"})
    with pytest.raises(ValueError, match="model_type 'unheard'"):
        load(folder)


def test_presets_have_the_sizes_they_state() -> None:
    def size(name: str) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in Transformer(preset(name)).parameters())

    def formula(vocab: int, d: int, f: int) -> int:
        attention, forward, norm = 4 * d * d, 2 * d * f + f + d, 2 * d
        encoder, decoder = attention + forward + 2 * norm, 2 * attention + forward + 3 * norm
        return vocab * d + 6 * encoder + 6 * decoder

    assert size("original-base") == formula(37000, 512, 2048) == 63_045_632
    assert size("original-big") == formula(37000, 1024, 4096) == 214_171_648
    assert size("gpt2") == 124_439_808
    assert all(count in original.__doc__ for count in ("63,045,632", "214,171,648"))
    assert all(preset(name).dim for name in PRESETS)


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="'original-bass' is not known; did you mean 'original-base'"):
        preset("original-bass")
    with pytest.raises(ValueError, match="known are original-base"):
        preset("zzz")
