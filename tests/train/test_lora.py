"""Low-rank adaptation: what it computes, that only it is trained, and what a run with it leaves."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.families.load import load, save
from clearhead.families.store import read_tensors
from clearhead.model.transformer import Transformer
from clearhead.text.build import bytes_tokenizer
from clearhead.train import run as running
from clearhead.train.folder import CHECKPOINT, read_log
from clearhead.train.lora import Adapted, adapt, adapted, merged, small_of, twin
from clearhead.train.loss import Batch
from clearhead.train.recipe import Lora, Recipe, recipe_of, write_recipe
from clearhead.train.run import run
from clearhead.train.save import WEIGHTS
from train.runs import recipe_for, state, text_in
from train.test_loss import small
from train.test_spread import TORCHRUN, surroundings
from truth.homes import gpt2, randomised

FORM = Lora(rank=2, alpha=3.0)
IDS = torch.tensor([[3, 4, 5, 6, 7]])


def drawn(model: Transformer) -> Transformer:
    """B is not zero any more."""
    for _, matrix in adapted(model):
        torch.nn.init.normal_(matrix.up)
    return model


def test_at_first_the_model_says_what_it_said_to_the_bit() -> None:
    model = small("decoder").float()
    before = model(IDS).logits
    adapt(model, FORM, "base")
    assert [name for name, _ in adapted(model)] == [f"decoder.layers.0.self_attention.{part}" for part in "qv"]
    assert torch.equal(model(IDS).logits, before)
    assert all(module.down.abs().max() > 0 for _, module in adapted(model))


def test_an_adapted_matrix_is_w_plus_alpha_over_rank_b_a() -> None:
    linear = torch.nn.Linear(5, 7).double()
    module = Adapted(linear, FORM)
    torch.nn.init.normal_(module.up)
    x = torch.randn(3, 5).double()
    w, bias, a, b = (p.detach().numpy() for p in (linear.weight, linear.bias, module.down, module.up))
    expected = x.numpy() @ (w + 3.0 / 2 * b @ a).T + bias
    assert np.abs(module(x).detach().numpy() - expected).max() < 1e-14
    assert np.abs(module.adapter.product.numpy() - 1.5 * b @ a).max() < 1e-15
    assert np.abs(a).max() <= 5**-0.5


def test_dropout_falls_on_what_comes_into_the_adapter_alone() -> None:
    module = Adapted(torch.nn.Linear(64, 3, bias=False), replace(FORM, dropout=0.5))
    torch.nn.init.normal_(module.up)
    x = torch.ones(1, 64)
    torch.manual_seed(0)
    assert not torch.equal(module(x), module(x))
    assert torch.equal(module.eval()(x), module(x))
    torch.nn.init.zeros_(module.up)
    assert torch.equal(module.train()(x), module.eval()(x)), "the matrix itself sees everything"


def test_merged_it_says_the_same_without_adapters() -> None:
    model = small("both")
    adapt(model, replace(FORM, targets=("*attention.*", "*feed_forward.up.weight")), "base")
    drawn(model)
    plain = merged(model)
    assert not dict(adapted(plain))
    assert {name for name, _ in plain.named_parameters()} == {name for name, _ in small("both").named_parameters()}
    fed = {"decoder_input_ids": IDS[:, :3]}
    assert (plain(IDS, **fed).logits - model(IDS, **fed).logits).abs().max() < 1e-12
    assert merged(plain) is plain
    same = twin(model, {name: parameter.detach() for name, parameter in model.named_parameters()})
    assert torch.equal(same(IDS, **fed).logits, model(IDS, **fed).logits)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (Lora(rank=9), r"rank is 9, but decoder.layers.0.self_attention.q.weight is \[8, 8\]; at most 8 does anything"),
        (
            Lora(rank=2, targets=("decoder.layers.*.q_proj",)),
            "no matrix is called decoder.layers.*.q_proj; there are for instance decoder.layers.0",
        ),
        (Lora(rank=2, targets=("decoder.embedding.weight",)), "no matrix is called decoder.embedding.weight"),
    ],
)
def test_what_cannot_be_adapted_is_refused_with_its_numbers(form: Lora, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        adapt(small("decoder"), form, "base")


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        ({"model.lora.rank": 2}, "model.lora.rank is 2, but model.start is null; name the model"),
        ({"model": {"start": "a", "lora": {"rank": 2, "targets": []}}}, "but model.lora.targets is empty; name some"),
        ({"model": {"start": "a", "freeze": ["b"], "lora": {"rank": 2}}}, r"model.freeze is \['b'\], but with"),
        ({"model": {"start": "a", "lora": {"rank": 2}}, "save": {"keep": 3, "average": 3}}, "save.average is 3, but a"),
        ({"model.lora.rank": -1}, "model.lora.rank is -1; it must be at least 0"),
        ({"model.lora": {"alpha": 0}}, "model.lora.alpha is 0.0; it must be above 0"),
        ({"model.lora": {"dropout": 1}}, "model.lora.dropout is 1.0; it must be below 1"),
        ({"model.lora": {"ranks": 1}}, "recipe.model.lora.ranks is not a field of Lora; did you mean 'rank'?"),
    ],
)
def test_recipes_that_cannot_be_meant_are_refused(plain: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        recipe_of(plain)


@pytest.fixture(scope="module", params=["own", "home"])
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    """A recipe that adapts a model, in our format or in that of its home library, and where its run is."""
    place = tmp_path_factory.mktemp("lora")
    if request.param == "own":
        run(recipe_for(text_in(place), steps=3), place / "base")
    else:
        randomised(gpt2(vocab_size=300)).save_pretrained(place / "theirs")
        model = load(place / "theirs")
        model.tokenizer = bytes_tokenizer(eos=True)
        save(model, place / "base")
    lora = {"rank": 2, "dropout": 0.1, "targets": ["*attention.[qv].weight", "*.up.weight"]}
    asked = {"start": str(place / "base"), "dropout": 0.1, "lora": lora}
    recipe = recipe_for(text_in(place), model=asked, optimizer={"adamw": 0.02}, watch={"evaluate_every": 2})
    recipe = replace(recipe, save=replace(recipe.save, keep=2, keep_best=True))
    assert run(recipe, place / "run") is not None
    return recipe, place / "run"


def test_only_the_adapters_are_trained_and_the_model_that_is_saved_has_them_in_it(begun: tuple[Recipe, Path]) -> None:
    _, folder = begun
    before, after = (dict(load(place).named_parameters()) for place in (folder.parent / "base", folder))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if name.endswith(("attention.q.weight", "n.v.weight", "up.weight"))}
    trained = read_tensors(folder / CHECKPOINT / WEIGHTS)
    assert {name.rsplit(".", 1)[1] for name in trained} == {"down", "up"}
    assert all(tensor.any() for tensor in trained.values())
    moments = read_tensors(folder / CHECKPOINT / "training.safetensors")
    assert {name.split(".")[1] for name in moments} == {str(i) for i in range(len(trained))}


def test_the_adapter_beside_it_gives_the_same_model(begun: tuple[Recipe, Path]) -> None:
    recipe, folder = begun
    found, model = load(folder / "adapter"), load(folder)
    assert json.loads((folder / "adapter" / "adapter_config.json").read_text())["r"] in (2, 4)
    assert (found(IDS).logits - model(IDS).logits).abs().max() < 1e-5
    assert (load(str(recipe.model.start))(IDS).logits - model(IDS).logits).abs().max() > 1e-3
    given = json.loads((folder / "report.json").read_text())["given"]
    assert given == "the best by validation loss"
    assert (folder / "best" / "adapter" / "adapter_model.safetensors").read_bytes() == (
        folder / "adapter" / "adapter_model.safetensors"
    ).read_bytes()
    assert all(not (kept / "adapter").exists() for kept in (folder / "kept").iterdir())


def test_trn_03_stopped_and_gone_on_with_it_comes_to_the_same_bytes(
    begun: tuple[Recipe, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, folder = begun
    real = running.stream

    def interrupted(*given: Any) -> Iterator[Batch]:
        for i, batch in enumerate(real(*given), 1):
            if i == 3:
                signal.raise_signal(signal.SIGTERM)
            yield batch

    monkeypatch.setattr(running, "stream", interrupted)
    assert run(recipe, tmp_path / "run") is None
    monkeypatch.undo()
    torch.manual_seed(99)
    assert run(recipe, tmp_path / "run", resume=True) is not None
    assert state(tmp_path / "run") == state(folder)
    for file in (f"{CHECKPOINT}/{WEIGHTS}", "adapter/adapter_model.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (folder / file).read_bytes()
    assert {file.name for file in (tmp_path / "run").iterdir()} == {file.name for file in folder.iterdir()}


def test_a_base_that_has_changed_is_refused(begun: tuple[Recipe, Path]) -> None:
    recipe, folder = begun
    weights = folder.parent / "base" / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"weights of model.start is sha256 \w{16}, but the run in .* was begun with"):
        run(recipe, folder, resume=True)
    weights.write_bytes(before)


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["ddp", "fsdp"])
def test_trn_09_two_processes_have_the_losses_and_weights_of_one(
    spread: Any, begun: tuple[Recipe, Path], tmp_path: Path
) -> None:
    recipe, _ = begun
    still = replace(recipe.model, dropout=0.0, lora=replace(recipe.model.lora, dropout=0.0))
    recipe = replace(recipe, model=still, save=replace(recipe.save, keep_best=False))
    run(recipe, tmp_path / "alone")
    write_recipe(replace(recipe, spread=spread), tmp_path / "recipe.yaml")
    words = ["-m", "clearhead", "train", "run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "two")]
    done = subprocess.run([sys.executable, *TORCHRUN, *words], env=surroundings(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    alone, two = ([line["loss"] for line in read_log(tmp_path / name)] for name in ("alone", "two"))
    assert two == pytest.approx(alone, rel=1e-5)
    for name in ("model.safetensors", f"{CHECKPOINT}/{WEIGHTS}", "adapter/adapter_model.safetensors"):
        a, b = (read_tensors(tmp_path / place / name) for place in ("alone", "two"))
        assert all((a[one] - b[one]).abs().max() < 1e-4 for one in a)


def test_small_of_a_model_without_adapters_is_nothing() -> None:
    assert small_of(small("decoder")) == {}
