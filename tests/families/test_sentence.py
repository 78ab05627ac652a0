"""Folders of sentence-transformers, in its old and its new spelling, against the formulas on transformers' states."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertModel

import clearhead
from clearhead.config import TextEmbedding
from clearhead.text.build import char_tokenizer
from families.folders import edit
from truth.cases import difference
from truth.homes import HOMES, randomised

TEXTS = ["one two", "a much longer sentence of many words", "two", "three words here"]
OLD = "sentence_transformers.models."
NEW = "sentence_transformers.base.modules.x."
Make = Callable[..., Path]


@pytest.fixture
def sentence(tmp_path: Path) -> Make:
    """sentence(kinds, settings): a tiny BERT with a pooler, and modules.json of these kinds."""

    def folder(kinds: dict[str, dict[str, Any]], prefix: str = OLD) -> Path:
        home = tmp_path / "s"
        torch.manual_seed(0)
        randomised(BertModel(HOMES["bert"]().config)).save_pretrained(home)
        char_tokenizer(TEXTS).save(home)
        named = [("Transformer", "")] + [(kind, f"{i}_{kind}") for i, kind in enumerate(kinds, 1)]
        write(home / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": prefix + kind}
                                      for i, (kind, path) in enumerate(named)])  # fmt: skip
        for (kind, path), settings in zip(named[1:], kinds.values(), strict=True):
            (home / path).mkdir(exist_ok=True)
            if kind != "Normalize":
                write(home / path / "config.json", settings)
            if kind == "Dense":
                save_file(dense(settings), home / path / "model.safetensors")
        return home

    return folder


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def dense(settings: dict[str, Any]) -> dict[str, Tensor]:
    width = settings["out_features"] if isinstance(settings["out_features"], int) else 1
    made = {"linear.weight": torch.randn(width, 20)}
    return made | ({"linear.bias": torch.randn(width)} if settings.get("bias", True) else {})


@torch.no_grad()
def states(folder: Path, model: Any) -> list[Tensor]:
    """Of each text by itself, from the home library."""
    home = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    return [home(torch.tensor([model.tokenizer.encode(text)])).last_hidden_state[0] for text in TEXTS]


MEAN, CLS = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, {"pooling_mode_cls_token": True}
NORMALIZE: dict[str, dict[str, Any]] = {"Normalize": {}}
POOLS: dict[str, tuple[dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "mean, old": (MEAN, lambda x: x.mean(0)),
    "mean": ({"pooling_mode": "mean", "include_prompt": True}, lambda x: x.mean(0)),
    "no settings": ({}, lambda x: x.mean(0)),
    "cls, old": (CLS, lambda x: x[0]),
    "cls": ({"pooling_mode": "cls"}, lambda x: x[0]),
    "max": ({"pooling_mode": "max"}, lambda x: x.amax(0)),
    "last, old": ({"pooling_mode_lasttoken": True}, lambda x: x[-1]),
    "last": ({"pooling_mode": ["lasttoken"]}, lambda x: x[-1]),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling(sentence: Make, name: str) -> None:
    settings, formula = POOLS[name]
    folder = sentence({"Pooling": settings})
    model = clearhead.load(folder)
    expected = torch.stack([formula(x) for x in states(folder, model)])
    assert difference(clearhead.embed(model, TEXTS), expected) < 1e-5


DENSE: dict[str, tuple[dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "tanh by default": ({"in_features": 20, "out_features": 7}, torch.tanh),
    "none": (
        {"in_features": 20, "out_features": 7, "activation_function": "torch.nn.modules.linear.Identity"},
        lambda x: x,
    ),
    "gelu, no bias": (
        {"in_features": 20, "out_features": 9, "bias": False, "activation_function": "torch.nn.GELU"},
        F.gelu,
    ),
}


@pytest.mark.parametrize("norm", [{}, NORMALIZE])
@pytest.mark.parametrize("name", DENSE)
def test_a_dense_layer_and_a_norm(sentence: Make, name: str, norm: dict[str, Any], tmp_path: Path) -> None:
    settings, bend = DENSE[name]
    folder = sentence({"Pooling": MEAN, "Dense": settings, **norm}, NEW)
    model = clearhead.load(folder)
    tensors = load_file(folder / "2_Dense" / "model.safetensors")
    pooled = torch.stack([x.mean(0) for x in states(folder, model)])
    expected = bend(F.linear(pooled, tensors["linear.weight"], tensors.get("linear.bias")))
    expected = expected / expected.norm(dim=-1, keepdim=True) if norm else expected
    found = clearhead.embed(model, TEXTS)
    assert difference(found, expected) < 1e-5
    clearhead.save(model, tmp_path / "again")
    for path in ("modules.json", "1_Pooling/config.json", "2_Dense/config.json"):
        assert json.loads((tmp_path / "again" / path).read_text()) == json.loads((folder / path).read_text())
    kept = load_file(tmp_path / "again" / "2_Dense" / "model.safetensors")
    assert kept.keys() == tensors.keys()
    assert all(torch.equal(kept[key], tensors[key]) for key in kept)
    again = clearhead.load(tmp_path / "again")
    assert again.config == model.config
    torch.testing.assert_close(clearhead.embed(again, TEXTS), found)


def test_the_pooler_is_no_part_of_a_sentence_encoder(sentence: Make) -> None:
    model = clearhead.load(sentence({"Pooling": MEAN, **NORMALIZE}))
    assert model.config.head == TextEmbedding(pool="mean", normalise=True)
    assert model.home.left == ("pooler.dense.bias", "pooler.dense.weight")


def test_vectors_do_not_depend_on_the_batch(sentence: Make) -> None:
    model = clearhead.load(sentence({"Pooling": MEAN}), dtype=torch.float64)
    together = clearhead.embed(model, TEXTS)
    assert together.shape == (4, 20)
    assert not together.requires_grad
    for size in (1, 3):
        torch.testing.assert_close(clearhead.embed(model, TEXTS, batch_size=size), together, atol=1e-12, rtol=0)
    torch.testing.assert_close(clearhead.embed(model, TEXTS[1]), together[1:2], atol=1e-12, rtol=0)


def test_any_model_with_a_tokenizer_gives_vectors(sentence: Make) -> None:
    """By pooling the last states, of the encoder where there is one."""
    encoder = clearhead.load(sentence({"Pooling": MEAN, **NORMALIZE}))
    expected = clearhead.embed(encoder, TEXTS)
    torch.testing.assert_close(clearhead.embed(encoder, TEXTS, pool="mean", normalise=True), expected)
    assert not torch.allclose(clearhead.embed(encoder, TEXTS, pool="mean"), expected)
    for name in ("llama", "bart"):
        model = clearhead.load(folder_of(name, encoder))
        found = clearhead.embed(model, TEXTS, pool="last")
        ids = torch.tensor([model.tokenizer.encode(TEXTS[0])])
        states = model(ids).hidden if model.encoder is None else model.encode(ids)
        torch.testing.assert_close(found[0], states[0, -1])


def folder_of(name: str, like: Any) -> Path:
    from truth.cases import case

    like.tokenizer.save(case(name).folder)
    return case(name).folder


def test_what_embed_refuses(sentence: Make) -> None:
    model = clearhead.load(sentence({"Pooling": MEAN}))
    with pytest.raises(ValueError, match="there are 0 texts and batch_size is 32"):
        clearhead.embed(model, [])
    with pytest.raises(ValueError, match="batch_size is 0"):
        clearhead.embed(model, TEXTS, batch_size=0)
    with pytest.raises(ValueError, match=r"the text has 90 tokens, but the position table has 64 rows"):
        clearhead.embed(model, "one" * 30)
    with pytest.raises(ValueError, match=r"in row 0 no token that ends it \(eos 2\), but pool is 'eos'"):
        clearhead.embed(model, "one", pool="eos")
    model.tokenizer = None
    with pytest.raises(ValueError, match="has no tokenizer"):
        clearhead.embed(model, "one")
    with pytest.raises(ValueError, match="no head that gives one vector; say how to pool"):
        clearhead.embed(clearhead.load(folder_of("llama", clearhead.load(sentence({"Pooling": MEAN})))), "one")


BAD: dict[str, tuple[dict[str, dict[str, Any]], str]] = {
    "two ways": (
        {"Pooling": {**MEAN, **CLS}},
        "the pooling is mean and cls; known is one of cls, lasttoken",
    ),
    "another way": ({"Pooling": {"pooling_mode": "weightedmean"}}, "the pooling is weightedmean; known"),
    "order": ({**NORMALIZE, "Pooling": MEAN}, "lists Transformer, Normalize, Pooling; known are Transformer, Pooling"),
    "another module": ({"Pooling": MEAN, "LSTM": {}}, "lists Transformer, Pooling, LSTM; known"),
    "activation": (
        {"Pooling": MEAN, "Dense": {"out_features": 3, "activation_function": "mine.Wavy"}},
        "activation_function is Wavy; known are Identity, Tanh",
    ),
    "residual": (
        {"Pooling": MEAN, "Dense": {"out_features": 20, "use_residual": True}},
        "2_Dense/config.json sets use_residual=True, which this version cannot run",
    ),
    "width": (
        {"Pooling": MEAN, "Dense": {"out_features": "wide"}},
        "out_features='wide' and bias=True",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_no_formula_here_does_is_refused(sentence: Make, name: str) -> None:
    kinds, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        clearhead.load(sentence(kinds))


def test_settings_beside_the_modules(sentence: Make) -> None:
    folder = sentence({"Pooling": MEAN})
    write(folder / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": True})
    with pytest.raises(ValueError, match=r"sentence_bert_config.json sets do_lower_case=True, which .*ignore_config"):
        clearhead.load(folder)
    assert clearhead.load(folder, ignore_config=["do_lower_case"]).config.head is not None
    write(folder / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": "q: "}, "default_prompt_name": "query"})
    with pytest.raises(ValueError, match="default_prompt_name='query'"):
        clearhead.load(folder)


def test_ckp_12_module_folders_stay_inside(sentence: Make, tmp_path: Path) -> None:
    folder = sentence({"Pooling": MEAN, "Dense": {"out_features": 20}})
    listed = json.loads((folder / "modules.json").read_text())
    for path in ("../away", "/etc", "a\\b", "1_Pooling/deep"):
        write(folder / "modules.json", [listed[0], {**listed[1], "path": path}])
        with pytest.raises(ValueError, match=r"puts the module Pooling in .*plain folders below"):
            clearhead.load(folder)
    write(folder / "modules.json", [{**listed[0], "path": "0_Transformer"}, listed[1]])
    with pytest.raises(ValueError, match="puts the module Transformer in '0_Transformer'"):
        clearhead.load(folder)
    write(folder / "modules.json", listed)
    (folder / "2_Dense" / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"2_Dense/model.safetensors is missing"):
        clearhead.load(folder)
    (folder / "2_Dense" / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="is a link out of the folder"):
        clearhead.load(folder)
    for broken in ("{", '{"a": 1}', "[3]", '[{"type": "x.Pooling"}]'):
        (folder / "modules.json").write_text(broken)
        with pytest.raises(ValueError, match=r"modules.json is not a list of modules with type and path"):
            clearhead.load(folder)


def test_a_folder_without_modules_is_as_before(sentence: Make) -> None:
    folder = sentence({"Pooling": MEAN})
    (folder / "modules.json").unlink()
    edit(folder)
    form = clearhead.load(folder).config.head
    assert isinstance(form, TextEmbedding)
    assert form.pool == "first"
