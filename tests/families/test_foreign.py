"""Folders of home libraries: what is refused, and what other spellings are read."""

import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import clearhead
from clearhead.families.known import FAMILIES
from clearhead.text.build import word_tokenizer
from families.folders import edit, logits, rename
from truth.cases import text
from truth.homes import HOMES, LENGTH

Make = Callable[..., Path]


def test_ckp_07_a_local_folder_makes_no_connection(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("llama")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was tried")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert clearhead.load(folder).decoder is not None


def test_ckp_04_names_are_strict(make: Make) -> None:
    folder = make("llama")
    rename(folder, lambda t: {f"wrong.{name}": value for name, value in t.items()})
    with pytest.raises(ValueError, match=r"missing: embed_tokens.weight, .*; not expected: wrong.lm_head.weight"):
        clearhead.load(folder)


def test_a_shape_that_the_config_denies(make: Make) -> None:
    folder = make("llama")
    edit(folder, intermediate_size=30)
    with pytest.raises(ValueError, match=r"gate_proj.weight is \[28, 24\] in the file, but the config says \[30, 24\]"):
        clearhead.load(folder)


def test_quantised_weights_are_not_yet(make: Make) -> None:
    folder = make("llama")
    rename(folder, lambda t: {**t, "model.norm.weight": t["model.norm.weight"].to(torch.int8)})
    with pytest.raises(ValueError, match=r"model.norm.weight is stored as torch.int8"):
        clearhead.load(folder)


def test_unknown_settings_are_listed_in_one_error(make: Make) -> None:
    folder = make("gpt2")
    edit(folder, new_trick=3, scale_attn_by_inverse_layer_idx=True, harmless=None)
    with pytest.raises(ValueError, match=r"sets new_trick=3, scale_attn_by_inverse_layer_idx=True, which") as error:
        clearhead.load(folder)
    assert "harmless" not in str(error.value)
    names = ["new_trick", "scale_attn_by_inverse_layer_idx"]
    with pytest.raises(ValueError, match="sets new_trick=3, which"):
        clearhead.load(folder, ignore_config=names[1:])
    assert clearhead.load(folder, ignore_config=names).decoder is not None


def test_missing_and_strange_settings(make: Make) -> None:
    folder = make("llama")
    edit(folder, drop=("vocab_size",))
    with pytest.raises(ValueError, match="has no vocab_size, which this family needs"):
        clearhead.load(folder)
    edit(folder, vocab_size=41, hidden_act="mish")
    with pytest.raises(ValueError, match="sets hidden_act to 'mish'; known are gelu"):
        clearhead.load(folder)
    edit(folder, hidden_act="silu", rope_parameters={"rope_type": "dynamic", "factor": 2.0})
    with pytest.raises(ValueError, match=r"scales rotary positions by .*dynamic.*; known are default, linear, llama3"):
        clearhead.load(folder)


def test_layer_types_must_be_known_and_complete(make: Make) -> None:
    folder = make("gemma2")
    for kinds in (["full_attention"], ["full_attention", "chunked_attention", "full_attention"]):
        edit(folder, layer_types=kinds)
        with pytest.raises(ValueError, match=r"has layer_types .*; expected 3 of sliding_attention, full_attention"):
            clearhead.load(folder)


def test_unknown_architectures_say_what_is_known(make: Make) -> None:
    folder = make("llama")
    edit(folder, model_type="unheard")
    with pytest.raises(ValueError, match=r"model_type 'unheard'.*known are clearhead, gpt2, .*docs/families.md"):
        clearhead.load(folder)
    edit(folder, model_type="llama", architectures=["LlamaForQuestionAnswering"])
    with pytest.raises(ValueError, match=r"LlamaForQuestionAnswering; .* knows LlamaForCausalLM, LlamaModel"):
        clearhead.load(folder)
    edit(folder, model_type="mixtral", num_local_experts=8)
    with pytest.raises(ValueError, match="'mixtral', a mixture of experts; those are not yet supported"):
        clearhead.load(folder)


def test_a_tied_head_may_be_in_the_file_again_but_not_another(make: Make) -> None:
    folder = make("gpt2")
    plain = logits(folder)
    rename(folder, lambda t: {**t, "lm_head.weight": t["transformer.wte.weight"].clone()})
    assert torch.equal(logits(folder), plain)
    rename(folder, lambda t: {**t, "lm_head.weight": t["lm_head.weight"] + 1})
    with pytest.raises(ValueError, match=r"lm_head.weight and transformer.wte.weight differ .*tie_word_embeddings"):
        clearhead.load(folder)


def test_a_head_that_the_file_lacks(make: Make) -> None:
    folder = make("llama")
    rename(folder, lambda t: {name: value for name, value in t.items() if name != "lm_head.weight"})
    with pytest.raises(ValueError, match=r"missing: lm_head.weight; not expected: none"):
        clearhead.load(folder)


def test_old_files_without_prefix_and_with_masks(make: Make, tmp_path: Path) -> None:
    """As the first releases were published."""
    folder = make("gpt2")
    plain = logits(folder)
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 4, 4) for i in range(3)}
    rename(folder, lambda t: {**{name.removeprefix("transformer."): v for name, v in t.items()}, **masks})
    assert torch.equal(logits(folder), plain)
    clearhead.save(clearhead.load(folder), tmp_path / "again")
    assert torch.equal(logits(tmp_path / "again"), plain)


def test_old_names_of_gains_and_a_pooler(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    folder = make("bert")
    plain = logits(folder)

    def old(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        spelled = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): v for n, v in tensors.items()}
        spelled = {n.replace("LayerNorm.bias", "LayerNorm.beta"): v for n, v in spelled.items()}
        return {**spelled, "bert.pooler.dense.weight": torch.ones(2, 2), "cls.seq_relationship.bias": torch.ones(2)}

    rename(folder, old)
    with caplog.at_level(logging.WARNING):
        assert torch.equal(logits(folder), plain)
    assert "not written again by save: bert.pooler.dense.weight, cls.seq_relationship.bias" in caplog.text
    assert clearhead.load(folder).home.left == ("bert.pooler.dense.weight", "cls.seq_relationship.bias")


def test_old_keys_of_rotary_positions(make: Make) -> None:
    folder = make("llama, bands")
    plain = logits(folder)
    rope = json.loads((folder / "config.json").read_text())["rope_parameters"]
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    edit(folder, drop=("rope_parameters",), rope_theta=rope["rope_theta"], rope_scaling=scaling)
    assert torch.equal(logits(folder), plain)
    folder = make("gemma3")
    plain = logits(folder)
    old = {"rope_theta": 900.0, "rope_local_base_freq": 50.0, "rope_scaling": {"rope_type": "linear", "factor": 3.0}}
    edit(folder, drop=("rope_parameters",), **old)
    assert torch.equal(logits(folder), plain)


def test_generation_config_names_the_ends(make: Make, tmp_path: Path) -> None:
    folder = make("llama")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7], "temperature": 0.6}))
    model = clearhead.load(folder)
    assert model.config.eos == (2, 7)
    clearhead.save(model, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "generation_config.json").read_text())["temperature"] == 0.6
    assert clearhead.load(tmp_path / "again").config.eos == (2, 7)


def test_negative_ids_mean_none(make: Make) -> None:
    folder = make("llama")
    (folder / "generation_config.json").unlink()
    edit(folder, pad_token_id=-1)
    assert clearhead.load(folder).config.pad is None


def test_tokenizer_dtype_and_device(make: Make, tmp_path: Path) -> None:
    folder = make("llama")
    tokenizer = word_tokenizer(["one two"], eos=True)
    tokenizer.save(folder)
    model = clearhead.load(folder, dtype=torch.bfloat16, device="cpu")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    clearhead.save(model, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["dtype"] == "bfloat16"
    again = clearhead.load(tmp_path / "again")
    assert {p.dtype for p in again.parameters()} == {torch.bfloat16}
    assert again.tokenizer.encode("two one") == tokenizer.encode("two one")


def test_a_model_that_was_changed_is_saved_as_ours(make: Make, tmp_path: Path) -> None:
    from dataclasses import replace

    model = clearhead.load(make("llama"))
    model.config = replace(model.config, eos=5)
    clearhead.save(model, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["model_type"] == "clearhead"
    assert clearhead.load(tmp_path / "again").config == model.config


def test_pos_04_rows_before_the_first_position_are_not_usable(make: Make) -> None:
    folder = make("roberta")  # pad is 4
    model = clearhead.load(folder)
    assert model.config.encoder.positions.count == LENGTH - 5
    with pytest.raises(ValueError, match=f"{LENGTH - 4} tokens, but the position table has {LENGTH - 5} rows"):
        model(text(1, LENGTH - 4))


def test_pos_05_two_rows_more_than_positions(make: Make) -> None:
    model = clearhead.load(make("bart"))
    assert model.encoder.positions.table.weight.shape[0] == LENGTH + 2
    assert model.config.encoder.positions.offset == 2


def test_gen_13_labels_are_shifted_from_the_start_token(make: Make) -> None:
    model = clearhead.load(make("bart"))
    labels = torch.tensor([[0, 7, 8, 2, 1]])
    fed = torch.tensor([[2, 0, 7, 8, 2]])
    source = text(1, 9)
    with torch.no_grad():
        assert torch.equal(model(source, labels=labels).logits, model(source, decoder_input_ids=fed).logits)


def test_gen_14_the_start_is_pad_and_pad_is_never_written(make: Make) -> None:
    folder = make("marian")
    model = clearhead.load(folder)
    assert model.config.start == model.config.pad == 36
    bias = torch.zeros_like(model.head.bias)
    bias[36] = 1e4  # the model would write nothing else
    model.head.bias.data = bias
    written = clearhead.generate(model, text(2, 9), max_new_tokens=5, eos_token_id=())
    assert written[:, 0].eq(36).all()
    assert not written[:, 1:].eq(36).any()


def test_ckp_10_a_tied_head_keeps_its_bias(make: Make) -> None:
    folder = make("bert")
    plain = logits(folder)
    rename(folder, lambda t: {**t, "cls.predictions.bias": t["cls.predictions.bias"] + 3})
    torch.testing.assert_close(logits(folder), plain + 3)


def test_num_03_scores_are_not_divided(make: Make) -> None:
    layer = clearhead.load(make("t5")).decoder.layers[0]
    assert layer.self_attention.scale == layer.cross_attention.scale == 1.0


def test_num_04_the_scale_of_the_embedding_is_rounded_with_the_weights(make: Make) -> None:
    model = clearhead.load(make("gemma"), dtype=torch.bfloat16)
    ids = text(1, 5)
    factor = torch.tensor(24**0.5).bfloat16()
    with clearhead.record(model, ["decoder.embed"]) as seen, torch.no_grad():
        model(ids)
    assert torch.equal(seen["decoder.embed"], model.decoder.embedding(ids) * factor)


def test_num_05_only_a_tied_head_is_scaled(make: Make) -> None:
    assert clearhead.load(make("t5")).config.head.scale == 20**-0.5
    assert clearhead.load(make("flan-t5")).config.head.scale == 1.0
    folder = make("t5")
    edit(folder, drop=("scale_decoder_outputs",), tie_word_embeddings=False)
    assert clearhead.load(folder).config.head.scale == 1.0


def test_every_model_type_is_proven() -> None:
    """A family that has no tiny model to be compared with is not in the tree."""
    assert set(FAMILIES) == {HOMES[name]().config.model_type for name in HOMES}


def test_gemmas_legacy_activation_is_the_approximation(make: Make) -> None:
    folder = make("gemma")
    edit(folder, hidden_act="gelu")
    assert clearhead.load(folder).config.decoder.layers[0].feed_forward.activation == "gelu_tanh"
