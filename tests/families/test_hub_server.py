"""`load` by an id against a hub on this machine, with the real client: what is fetched, kept and said."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import torch

from clearhead.families.load import save
from clearhead.families.presets import small_lm
from clearhead.model.transformer import Transformer
from clearhead.text.build import word_tokenizer
from families.hub_server import NAME, Hub, served

FIRST, SECOND = "1" * 40, "2" * 40
FILES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
Load = Callable[..., str]


def content(folder: Path, seed: int) -> dict[str, bytes]:
    torch.manual_seed(seed)
    model = Transformer(small_lm(29, 64))
    model.tokenizer = word_tokenizer(["one two"], eos=True)
    save(model, folder)
    made = {file.name: file.read_bytes() for file in folder.iterdir()}
    return {**made, "pytorch_model.bin": b"a pickle", "modeling_x.py": b"raise SystemExit", "README.md": b"words"}


@pytest.fixture
def hub(tmp_path: Path) -> Generator[Hub]:
    revisions = {FIRST: content(tmp_path / "first", 0), SECOND: content(tmp_path / "second", 1)}
    with served(Hub(revisions, {"main": SECOND, "v1": FIRST})) as here:
        yield here


@pytest.fixture
def load(hub: Hub, tmp_path: Path) -> Load:
    """load("org/name", "v1", None): in a process of its own, for each revision a line: a number that tells the weights
    apart, or the error.
    """

    def run(name: str, *revisions: str | None, offline: bool = False, token: str = "") -> str:
        code = (
            "import clearhead\n"
            f"for revision in {revisions or (None,)!r}:\n"
            "    try:\n"
            f"        model = clearhead.load({name!r}, revision=revision)\n"
            "        print(model.tokenizer.encode('two'), model.decoder.embedding.weight[3, 0].item())\n"
            "    except ValueError as error:\n"
            "        print(error)\n"
        )
        known = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        said = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        said |= {"HF_HUB_OFFLINE": "1"} if offline else {}
        said |= {"HF_TOKEN": token} if token else {}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**known, **said}, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def told(folder: Path) -> str:
    from clearhead.families.load import load

    model = load(folder)
    return f"{model.tokenizer.encode('two')} {model.decoder.embedding.weight[3, 0].item()}"  # type: ignore[union-attr]


def test_a_model_is_fetched_once_and_only_the_files_that_are_read(hub: Hub, load: Load, tmp_path: Path) -> None:
    assert load(NAME, token="hf_secret") == told(tmp_path / "second")
    assert sorted(hub.files()) == FILES
    assert set(hub.tokens) == {"Bearer hf_secret"}
    hub.asked.clear()
    assert load(NAME) == told(tmp_path / "second")
    assert hub.files() == []
    assert hub.asked


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub: Hub, load: Load, tmp_path: Path) -> None:
    first, second = (told(tmp_path / name) for name in ("first", "second"))
    *found, refused = load(NAME, "v1", FIRST, "main", "v9").splitlines()
    assert found == [first, first, second]
    assert first != second
    assert sorted(hub.files()) == sorted([*FILES, "model.safetensors"])  # what two commits share comes once
    assert refused.startswith(f"{NAME} is not a folder here, and the hub does not give it (")
    assert "404" in refused


def test_a_branch_that_moved_is_fetched_anew(hub: Hub, load: Load, tmp_path: Path) -> None:
    hub.named["main"] = FIRST
    assert load(NAME) == told(tmp_path / "first")
    hub.named["main"] = SECOND
    hub.asked.clear()
    assert load(NAME) == told(tmp_path / "second")
    assert "model.safetensors" in hub.files()


def test_offline_nothing_is_asked(hub: Hub, load: Load, tmp_path: Path) -> None:
    said = load(NAME, offline=True)
    assert said.startswith(f"{NAME} is not a folder here, and the hub does not give it (")
    assert f"`hf download {NAME} --local-dir FOLDER`" in said
    assert hub.asked == []
    found = load(NAME)
    hub.asked.clear()
    assert load(NAME, offline=True) == found == told(tmp_path / "second")
    assert hub.asked == []


def test_a_model_that_is_not_there(load: Load) -> None:
    said = load("org/none")
    assert said.startswith("org/none is not a folder here, and the hub does not give it (")
    assert "404" in said
    assert "\n" not in said


def test_a_model_whose_file_is_gone(hub: Hub, load: Load) -> None:
    del hub.revisions[SECOND]["model.safetensors"]
    said = load(NAME)
    assert "has no safetensors on the hub" in said
    assert "clearhead convert" in said
    assert "\n" not in said


def test_a_hub_that_has_vanished_leaves_what_was_fetched(hub: Hub, load: Load, tmp_path: Path) -> None:
    assert load(NAME) == told(tmp_path / "second")
    hub.url = "http://127.0.0.1:9"
    assert load(NAME) == told(tmp_path / "second")
    said = load("org/other")
    assert said.startswith("org/other is not a folder here, and the hub does not give it (")
    assert "\n" not in said
