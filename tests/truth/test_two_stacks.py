"""What only some translators have: labels shifted, a language that is forced, positions that are not in the file."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GenerationMixin

import clearhead
from truth.cases import case, close, text
from truth.homes import HOMES

TRANSLATORS = ["t5", "mt5", "bart", "marian", "m2m_100", "mbart", "pegasus", "whisper"]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_labels_are_shifted_as_at_home(name: str) -> None:
    """mBART moves the last label to the front; its labels end with the token that its decoder starts from."""
    c = case(name)
    labels = text(2, 9, seed=3)
    labels[0, 8] = labels[1, 5] = c.ours.config.start or 0
    labels[1, 6:] = -100
    inputs = {key: value for key, value in c.inputs(text(2, 12)).items() if key != "decoder_input_ids"}
    with torch.no_grad():
        home = c.home(**inputs, labels=labels)
        mine = c.ours(**inputs, labels=labels)
    assert mine.loss is not None
    close(mine.logits[labels != -100], home.logits[labels != -100])
    torch.testing.assert_close(mine.loss, home.loss, rtol=1e-5, atol=1e-5)


def test_mbart_without_a_start_asks_for_one(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(case("mbart").folder, folder)
    for file in ("config.json", "generation_config.json"):
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**content, "decoder_start_token_id": None}))
    model = clearhead.load(folder)
    with pytest.raises(ValueError, match=r"labels can be shifted only if config\.start"):
        model(text(1, 5), labels=text(1, 4))
    with pytest.raises(ValueError, match=r"decoder_start_token_id, config\.start and config\.bos are all None"):
        clearhead.generate(model, text(1, 5))
    started = clearhead.generate(model, text(1, 5), decoder_start_token_id=9, max_new_tokens=3)
    assert started[0, 0] == 9


@pytest.mark.parametrize("name", ["mbart", "m2m_100"])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_the_language_is_forced_as_at_home(name: str, num_beams: int) -> None:
    c = case(name)
    c.home.generation_config.forced_eos_token_id = None
    given: dict[str, Any] = {"input_ids": text(3, 9), "max_new_tokens": 14, "num_beams": num_beams}
    given["forced_bos_token_id"] = 7
    theirs = GenerationMixin.generate(c.home, **given, suppress_tokens=[c.pad], do_sample=False)
    mine = clearhead.generate(c.ours, **given)
    assert torch.equal(mine, theirs)
    assert set(mine[:, 1].tolist()) == {7}


@torch.no_grad()
def test_pegasus_files_without_positions_as_published(tmp_path: Path) -> None:
    c, folder = case("pegasus"), tmp_path / "m"
    shutil.copytree(c.folder, folder)
    tensors = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if "embed_positions" not in name}
    assert len(kept) == len(tensors) - 2
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    model = clearhead.load(folder)
    assert model.config.encoder is not None
    assert model.config.encoder.positions is not None
    assert model.config.encoder.positions.kind == "halves"
    inputs = c.inputs(text(2, 44))
    close(model(**inputs).logits, type(c.home).from_pretrained(folder).eval()(**inputs).logits)
    clearhead.save(model, tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == kept.keys()


def test_every_translator_is_here() -> None:
    assert {name for name in HOMES if case(name).two} - set(TRANSLATORS) == {
        "flan-t5",
        "t5, plain",
        "mt5, tied",
        "marian, two vocabularies",
        "whisper, plain",
    }
