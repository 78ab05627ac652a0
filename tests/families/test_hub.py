"""Models by their id on the hub: the cache, no network for what is here, and plain errors."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.families.hub import WANTED, local
from clearhead.families.load import load, save
from clearhead.families.presets import small_lm
from clearhead.model.transformer import Transformer
from clearhead.text.build import word_tokenizer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = Transformer(small_lm(29, 64))
    model.tokenizer = word_tokenizer(["one two"], eos=True)
    save(model, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to reach another machine is noted, and fails."""
    tried: list[Any] = []

    def refuse(*given: Any, **_: Any) -> None:
        tried.append(given)
        raise OSError("there is no network here")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    return tried


@pytest.fixture
def cache(folder: Path, tmp_path: Path) -> Path:
    """A hub cache as huggingface_hub lays it out: snapshots of links into blobs."""
    home = tmp_path / "hub" / "models--org--name"
    snapshot = home / "snapshots" / COMMIT
    for made in (home / "refs", home / "blobs", snapshot):
        made.mkdir(parents=True)
    (home / "refs" / "main").write_text(COMMIT)
    for i, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, home / "blobs" / f"{i:040x}")
        (snapshot / file.name).symlink_to(f"../../blobs/{i:040x}")
    return tmp_path / "hub"


def in_a_new_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**known, **environment}, check=False)


def test_ckp_07_a_local_folder_opens_no_connection(folder: Path, no_network: list[Any]) -> None:
    model = clearhead.load(folder)
    assert model.tokenizer.encode("two") == word_tokenizer(["one two"], eos=True).encode("two")
    assert clearhead.load(str(folder)).config == model.config
    assert no_network == []


def test_ckp_07_a_folder_that_is_named_like_a_model_on_the_hub_is_the_folder(
    folder: Path, no_network: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parents[1])
    name = f"{folder.parent.name}/model"
    assert local(name) == Path(name)
    assert clearhead.load(name).config.decoder.vocab == 29
    assert no_network == []


def test_the_hubs_library_is_imported_for_an_id_only(folder: Path) -> None:
    code = f"import sys, clearhead; clearhead.load({str(folder)!r}); assert 'huggingface_hub' not in sys.modules"
    assert in_a_new_process(code).returncode == 0


def test_an_id_in_the_cache_is_loaded_offline(cache: Path, folder: Path) -> None:
    code = (
        "import clearhead, torch\n"
        "model = clearhead.load('org/name')\n"
        f"again = clearhead.load('org/name', revision='{COMMIT}', dtype=torch.bfloat16)\n"
        "print(model.tokenizer.encode('two'), model.config.dim, again.config == model.config)\n"
        "try:\n"
        "    clearhead.load('org/name', revision='v9')\n"
        "except ValueError as error:\n"
        "    print(str(error).split('(')[0])\n"
    )
    done = in_a_new_process(code, HF_HUB_CACHE=str(cache), HF_HUB_OFFLINE="1")
    refused = "org/name is not a folder here, and the hub does not give it "
    assert (done.stdout, done.stderr) == (f"[4, 2] 64 True\n{refused}\n", "")


def test_without_network_it_says_how_to_get_the_model(
    tmp_path: Path, no_network: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"org/none is not a folder here.*`hf download org/none --local-dir FOLDER`"
    ) as said:
        load("org/none")
    assert "\n" not in str(said.value)
    assert no_network


def test_what_is_asked_of_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def give(name: str, **options: Any) -> str:
        asked.append((name, options))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", give)
    ids = torch.tensor([[3, 4, 5]])
    assert torch.equal(load("org/name", revision="v1")(ids).logits, load(folder)(ids).logits)
    assert asked == [("org/name", {"revision": "v1", "allow_patterns": WANTED})]


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        *[(name, True) for name in ("config.json", "model.safetensors", "model-00001-of-00002.safetensors")],
        *[(name, True) for name in ("model.safetensors.index.json", "tokenizer.json", "vocab.txt", "merges.txt")],
        *[(name, True) for name in ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "source.spm")],
        *[(name, True) for name in ("chat_template.jinja", "1_Pooling/config.json")],
        *[(name, False) for name in ("pytorch_model.bin", "model.fp16.safetensors", "consolidated.safetensors")],
        *[(name, False) for name in ("tf_model.h5", "model.gguf", "modeling_x.py", "training_args.bin", "README.md")],
    ],
)
def test_the_wanted_files_and_no_others(file: str, wanted: bool) -> None:
    from huggingface_hub.utils import filter_repo_objects

    assert [*filter_repo_objects([file], allow_patterns=WANTED)] == [file] * wanted


def test_a_snapshot_without_safetensors_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(tmp_path))
    with pytest.raises(
        ValueError, match=r"org/old has no safetensors on the hub .*`hf download org/old`.*clearhead convert"
    ):
        load("org/old")


@pytest.mark.parametrize(
    "name", ["nowhere", "a/b/c", "../up", "org/", "/org", "org/na me", "", "org\n/x", "~/x", "ö/x"]
)
def test_a_name_that_is_neither_is_refused_without_a_look(name: str, no_network: list[Any]) -> None:
    with pytest.raises(ValueError, match="is not a folder, and no model on the hub is called so"):
        local(name or "no/such/folder")
    with pytest.raises(ValueError, match=r"org/name is not a folder, and no model on the hub"):
        local(Path("org/name"))
    assert no_network == []


def test_a_revision_is_for_the_hub_only(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"revision='main' is for a model on the hub, but .*model is here; leave it out"
    ):
        load(folder, revision="main")
