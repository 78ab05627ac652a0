"""Models that see pictures too, of which the text part is read."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import clearhead
from clearhead.families.rope import FULL, LOCAL
from clearhead.model.transformer import Transformer
from families.folders import config_of, edit, said

Make = Callable[..., Path]
GEMMA_3_4B: dict[str, Any] = {  # as published
    "architectures": ["Gemma3ForConditionalGeneration"],
    "boi_token_index": 255999,
    "eoi_token_index": 256000,
    "eos_token_id": [1, 106],
    "image_token_index": 262144,
    "initializer_range": 0.02,
    "mm_tokens_per_image": 256,
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
    "transformers_version": "4.50.0.dev0",
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "vision_use_head": False,
    },
}


def test_the_published_file(tmp_path: Path) -> None:
    config = config_of(GEMMA_3_4B)
    kinds = [FULL if layer.self_attention.window is None else LOCAL for layer in config.decoder.layers]
    assert kinds == ([LOCAL] * 5 + [FULL]) * 5 + [LOCAL] * 4
    assert (config.pad, config.bos, config.eos) == (0, 2, (1, 106))
    (tmp_path / "config.json").write_text(json.dumps(GEMMA_3_4B))
    home = hf.AutoConfig.from_pretrained(tmp_path)
    today = {**json.loads(home.to_json_string(use_diff=False)), "architectures": GEMMA_3_4B["architectures"]}
    assert said(config_of(today | {"eos_token_id": [1, 106]})) == said(config)
    with torch.device("meta"):
        parameters = hf.Gemma3ForConditionalGeneration(home).named_parameters()
        ours = sum(p.numel() for p in Transformer(config).parameters())
    assert ours == sum(p.numel() for name, p in parameters if "language_model" in name)


def test_what_it_sees_with_is_listed_and_left_out(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        model = clearhead.load(make("gemma3, with pictures"))
    assert "not written again by save: multi_modal_projector.mm_input_projection_weight, " in caplog.text
    assert len(model.home.left) > 20


def test_settings_of_a_part_are_read_as_strictly(make: Make) -> None:
    folder = make("gemma3, with pictures")
    inside = json.loads((folder / "config.json").read_text())["text_config"]
    edit(folder, text_config=inside | {"new_trick": 1, "use_bidirectional_attention": True})
    with pytest.raises(ValueError, match=r"sets text_config.new_trick=1, text_config.use_bidirectional_attention=True"):
        clearhead.load(folder)
    edit(folder, text_config=inside | {"new_trick": 1})
    assert clearhead.load(folder, ignore_config=["text_config.new_trick"]).decoder is not None
    edit(folder, drop=("text_config",))
    with pytest.raises(ValueError, match="has no text_config, which this family needs"):
        clearhead.load(folder)
