"""Verification of checkpoints: equal to the home library, equal to what was stored, and what differs by name."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead
from checker.wrong_homes import PORTS
from clearhead.checker.ports import CAUSES
from clearhead.checker.verify import compared, edited, verify, verify_of, with_fingerprint, with_home
from clearhead.config import Rotary
from clearhead.families.convert import convert
from clearhead.families.fingerprint import FILE, probe
from clearhead.families.presets import small_lm
from clearhead.model.transformer import Transformer
from families.folders import edit
from truth.cases import case
from truth.homes import ROTARY_BANDS


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    """folder("llama"): a copy of a tiny model's folder, to spoil."""
    return lambda name: Path(shutil.copytree(case(name).folder, tmp_path / "m"))


def rope(**more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 10000.0, **more}


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", ["gpt2", "llama, bands", "gemma3", "gpt_neox", "bert", "bert, plain", "t5", "whisper"])
def test_a_checkpoint_equals_its_home_library(name: str, tmp_path: Path) -> None:
    convert(case(name).folder, tmp_path / "out")
    text, document, status = verify_of(tmp_path / "out")
    assert status == 0, text
    found = json.loads(document)
    assert found["equal"] is True
    whats = [one["what"] for one in found["findings"]]
    assert whats == ["with transformers, float32", "with transformers, bfloat16", "with the fingerprint"]
    assert all(one["equal"] and one["max_difference"] >= one["mean_difference"] for one in found["findings"])
    assert found["findings"][0]["max_difference"] < 1e-5
    assert found["findings"][2]["max_difference"] == 0.0
    assert text.count("equal  ") == 3


# What a person may change in config.json by mistake: (model, what, the bank's name for it).
EDITS: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"rope_parameters": rope(rope_theta=500000.0)}, "rotary-theta"),
    ("llama, bands", {"rope_parameters": rope(rope_theta=200.0)}, "rotary-scaling"),
    ("gpt_neox", {"rope_parameters": rope(partial_rotary_factor=0.5)}, "rotary-fraction"),
    ("llama", {"rms_norm_eps": 1e-5}, "norm-eps"),
    ("llama", {"hidden_act": "gelu"}, "activation"),
    ("gpt2", {"activation_function": "gelu"}, "activation"),
    ("marian", {"scale_embedding": False}, "embedding-scale"),
    ("gemma2", {"attn_logit_softcapping": None}, "softcap-off"),
    ("gemma2", {"final_logit_softcapping": None}, "softcap-off"),
    ("gemma2", {"query_pre_attn_scalar": 1}, "attention-scale"),
    ("gpt2", {"scale_attn_weights": False}, "attention-scale"),
    ("mistral", {"sliding_window": 8}, "window-off-by-one"),
    ("mistral", {"sliding_window": None}, "window-missing"),
    ("gpt_neox", {"use_parallel_residual": False}, "parallel"),
]
NUMBERS: list[tuple[str, dict[str, Any], str]] = [  # what the bank does not know; the field tells
    ("llama", {"rope_parameters": rope(rope_theta=777.0)}, "rotary-theta"),
    ("llama, bands", {"rope_parameters": {**ROTARY_BANDS, "factor": 5.0}}, "rotary-scaling"),
    ("llama", {"rms_norm_eps": 3e-3}, "norm-eps"),
    ("bert", {"hidden_act": "gelu_new"}, "activation"),
    ("gemma2", {"query_pre_attn_scalar": 7}, "attention-scale"),
    ("mistral", {"sliding_window": 12}, "window-off-by-one"),
]


@pytest.mark.parametrize(("name", "changes", "cause"), EDITS + NUMBERS)
def test_an_edited_config_is_named(name: str, changes: dict[str, Any], cause: str, tmp_path: Path) -> None:
    convert(case(name).folder, tmp_path / "out")
    edit(tmp_path / "out", **changes)
    found = with_fingerprint(tmp_path / "out", clearhead.load(tmp_path / "out"))
    assert (found.equal, found.cause) == (False, cause)
    assert "the config: " in found.words


@pytest.mark.parametrize(("name", "changes", "cause"), EDITS)
def test_a_home_library_that_reads_the_config_otherwise(
    name: str, changes: dict[str, Any], cause: str, folder: Callable[[str], Path]
) -> None:
    """Ours from the right config, theirs from the edited one."""
    place = folder(name)
    ours = clearhead.load(place)
    edit(place, **changes)
    (found,) = with_home(place, ours)
    assert (found.equal, found.cause) == (False, cause), found.words
    assert found.first_site is not None or "final_logit_softcapping" in changes
    assert f"cause {cause}: " in found.words


@pytest.mark.parametrize(("name", "change", "cause"), PORTS)
def test_a_home_library_that_computes_otherwise(name: str, change: Any, cause: str) -> None:
    c = case(name)
    theirs = copy.deepcopy(c.home)
    change(theirs)
    found = compared(c.ours, theirs, probe(c.ours.config, 40), [])
    assert (found.equal, found.cause) == (False, cause), found.words


def test_all_of_the_bank_is_tried() -> None:
    assert {cause for *_, cause in [*EDITS, *PORTS]} == {cause.name for cause in CAUSES}


def test_the_whole_report_on_an_edited_config(tmp_path: Path) -> None:
    """The home library reads the same wrong config, and agrees; the fingerprint does not."""
    convert(case("llama").folder, tmp_path / "out")
    edit(tmp_path / "out", rms_norm_eps=1e-5)
    text, document, status = verify_of(tmp_path / "out")
    assert status == 1
    assert json.loads(document)["equal"] is False
    assert "DIFFERS  with the fingerprint: " in text
    assert "norm.eps 1e-05 in place of 0.01" in text
    assert text.count("equal  ") == 2


def test_changed_weights_are_named(folder: Callable[[str], Path], tmp_path: Path) -> None:
    convert(folder("gpt2"), tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    weights = load_file(file)
    weights["transformer.ln_f.weight"][3] += 0.5
    save_file(weights, file, metadata={"format": "pt"})
    found = with_fingerprint(tmp_path / "out", clearhead.load(tmp_path / "out"))
    assert found.equal is False
    assert found.cause is None
    assert "model.safetensors is not the file that was written" in found.words


def test_another_program_is_named(folder: Callable[[str], Path], tmp_path: Path) -> None:
    convert(folder("gpt2"), tmp_path / "out")
    stored = json.loads((tmp_path / "out" / FILE).read_text())
    stored["answers"][0][0] += 0.1
    (tmp_path / "out" / FILE).write_text(json.dumps({**stored, "clearhead": "0.0.9"}))
    found = with_fingerprint(tmp_path / "out", clearhead.load(tmp_path / "out"))
    assert found.equal is False
    assert "files and config are the same; version 0.0.9 is now" in found.words


def test_without_the_home_library_the_fingerprint_counts(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder("gpt2")
    convert(place, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "transformers", None)
    text, document, status = verify_of(tmp_path / "out")
    assert status == 0
    assert "transformers: it is not installed (pip install transformers)" in text
    assert [one["equal"] for one in json.loads(document)["findings"]] == [None, True]
    text, document, status = verify_of(place)
    assert status == 2
    assert json.loads(document)["equal"] is None
    assert "there is none; `clearhead convert` stores one" in text


def test_our_own_format_has_the_fingerprint_only(tmp_path: Path) -> None:
    clearhead.save(Transformer(small_lm(29, 64)), tmp_path / "m")
    convert(tmp_path / "m", tmp_path / "out")
    first, second = verify(tmp_path / "out")
    assert first.equal is None
    assert "in our own format" in first.words
    assert second.equal is True


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    text, document, status = verify_of(tmp_path / "nowhere")
    assert status == 2
    assert "nowhere is not a folder" in text
    assert json.loads(document)["error"] == text


def test_what_the_home_library_cannot_load_is_said(
    folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    def fail(*given: Any, **more: Any) -> None:
        raise RuntimeError("no such\nluck")

    place = folder("gpt2")
    monkeypatch.setattr(transformers.GPT2LMHeadModel, "from_pretrained", fail)
    (found,) = with_home(place, clearhead.load(place))
    assert found.equal is None
    assert "it cannot run this: RuntimeError: no such luck" in found.words


def test_weights_that_the_home_library_draws_are_told(folder: Callable[[str], Path], tmp_path: Path) -> None:
    """The names that it does not know it replaces by random numbers, without an error."""
    place = folder("llama")
    found = with_home(place, clearhead.load(place))
    assert [one.equal for one in found] == [True, True]
    ours = clearhead.load(place)
    weights = load_file(place / "model.safetensors")
    save_file({f"x.{name}": value for name, value in weights.items()}, place / "model.safetensors", {"format": "pt"})
    (found,) = with_home(place, ours)
    assert found.equal is False
    assert "weights at random, such as" in found.words


def test_edits_that_no_cause_explains() -> None:
    config, plain = small_lm(29, 64), small_lm(29, 64).to_dict()
    assert edited(plain, config) == (None, "")
    assert edited(plain, small_lm(31, 64)) == (None, "decoder.vocab 31 in place of 29")
    assert edited(plain, small_lm(29, 128))[0] is None
    one = replace(config, decoder=replace(config.decoder, layers=config.decoder.layers[:1]))
    assert edited(plain, one) == (None, "the number of layers")
    layers = [*config.decoder.layers]
    layers[3] = replace(layers[3], self_attention=replace(layers[3].self_attention, rotary=Rotary(theta=77.0)))
    words = "decoder.layers.3.self_attention.rotary.theta 77.0 in place of 10000.0"
    assert edited(plain, replace(config, decoder=replace(config.decoder, layers=tuple(layers)))) == (
        "rotary-theta",
        words,
    )
    cause, words = edited({**plain, "old": 1}, config)
    assert cause is None
    assert words.startswith("config.old is not a field")


def test_answers_of_another_shape_are_infinitely_far(folder: Callable[[str], Path], tmp_path: Path) -> None:
    convert(folder("gpt2"), tmp_path / "out")
    stored = json.loads((tmp_path / "out" / FILE).read_text())
    (tmp_path / "out" / FILE).write_text(json.dumps({**stored, "answers": [[1.0]]}))
    _, document, status = verify_of(tmp_path / "out")
    assert status == 1
    assert "Infinity" not in document
    assert json.loads(document)["findings"][2]["max_difference"] is None
