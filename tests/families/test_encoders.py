"""Encoders: classes with more than one head, shared layers, and the older spellings of their settings."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import clearhead
from families.folders import config_of, edit, rename, said
from truth.cases import close, text
from truth.homes import albert_config, bert_sizes, modernbert_config, randomised

Make = Callable[..., Path]
TWO_HEADS = {
    "bert": (lambda: hf.BertForPreTraining(hf.BertConfig(**bert_sizes(pad_token_id=0))), "cls.seq_relationship"),
    "albert": (lambda: hf.AlbertForPreTraining(albert_config()), "sop_classifier.classifier"),
}


@pytest.mark.parametrize("name", TWO_HEADS)
@torch.no_grad()
def test_the_second_head_is_listed_and_left_out(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make, second = TWO_HEADS[name]
    home = randomised(make())
    home.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        ours = clearhead.load(tmp_path)
    assert f"no part of this model, and not written again by save: {name}.pooler" in caplog.text
    assert f"{second}.weight" in caplog.text
    ids = text(2, 9)
    close(ours(ids).logits, home(ids).prediction_logits)


def test_albert_shares_its_layers(make: Make) -> None:
    folder = make("albert")
    model = clearhead.load(folder)
    assert model.config.encoder.shared == (0, 0, 0, 1, 1)
    assert len(model.encoder.layers) == 2
    edit(folder, num_hidden_groups=6)
    with pytest.raises(ValueError, match="num_hidden_groups to 6, but num_hidden_layers to 5; use fewer"):
        clearhead.load(folder)
    edit(folder, num_hidden_groups=2, inner_group_num=2)
    with pytest.raises(ValueError, match="sets inner_group_num=2, which this version cannot run"):
        clearhead.load(folder)


@pytest.mark.parametrize(
    ("name", "head", "table"),
    [
        ("distilbert", "vocab_projector", "distilbert.embeddings.word_embeddings"),
        ("albert", "predictions.decoder", "albert.embeddings.word_embeddings"),
        ("modernbert", "decoder", "model.embeddings.tok_embeddings"),
    ],
)
def test_a_tied_head_may_be_in_the_file_again(make: Make, name: str, head: str, table: str) -> None:
    folder = make(name)
    plain = clearhead.load(folder)(text(2, 9)).logits
    rename(folder, lambda t: {**t, f"{head}.weight": t[f"{table}.weight"].clone()})
    assert torch.equal(clearhead.load(folder)(text(2, 9)).logits, plain)
    rename(folder, lambda t: {**t, f"{head}.weight": t[f"{head}.weight"] + 1})
    with pytest.raises(ValueError, match=r"differ .*tie_word_embeddings"):
        clearhead.load(folder)


def test_modernbert_spells_its_layers_in_two_ways(tmp_path: Path) -> None:
    """The published files count global layers; today's name the kind of each, with its rotary positions."""
    today = json.loads(modernbert_config().to_json_string(use_diff=False))
    left = ("layer_types", "rope_parameters")
    old: dict[str, Any] = {key: value for key, value in today.items() if key not in left}
    old |= {"global_attn_every_n_layers": 2, "global_rope_theta": 700.0, "local_rope_theta": 50.0}
    (tmp_path / "config.json").write_text(json.dumps(old))
    read = json.loads(hf.AutoConfig.from_pretrained(tmp_path).to_json_string(use_diff=False))
    assert read["layer_types"] == ["full_attention", "sliding_attention"] * 2
    assert said(config_of(read)) == said(config_of(old))
    forms = [layer.self_attention for layer in config_of(old).encoder.layers]
    assert [form.window for form in forms] == [None, 5, None, 5]
    assert [form.rotary.theta for form in forms] == [700.0, 50.0, 700.0, 50.0]


def test_old_files_write_every_setting_of_their_library(make: Make) -> None:
    """As in 2020; what would be another model is refused."""
    folder = make("albert")
    plain = clearhead.load(folder).config
    idle = {**dict.fromkeys(["torchscript", "use_bfloat16", "tf_legacy_loss"], False), "eos_token_ids": 0}
    idle |= {"pruned_heads": {}}
    edit(folder, **idle, is_decoder=False, add_cross_attention=False, tie_encoder_decoder=False)
    assert clearhead.load(folder).config == plain
    edit(folder, pruned_heads={"0": [1]}, is_decoder=True)
    with pytest.raises(ValueError, match=r"sets is_decoder=True, pruned_heads=\{'0': \[1\]\}, which"):
        clearhead.load(folder)
