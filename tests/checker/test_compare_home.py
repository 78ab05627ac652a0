"""Ours beside its home library, in which a detail is altered."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from checker.test_compare import IDS
from clearhead.checker.compare import compare_models
from clearhead.families.load import load


def gpt2() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 13, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2))


def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 13, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))


def bert() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 13, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    return transformers.BertForMaskedLM(transformers.BertConfig(**sizes, num_attention_heads=2))


def without_bias(model: Any) -> None:
    for block in model.transformer.h:
        block.mlp.c_fc.bias.data.zero_()
        block.mlp.c_proj.bias.data.zero_()


def other_base(model: Any) -> None:
    model.model.rotary_emb.inv_freq = 500000.0 ** -(torch.arange(0, 4, 2) / 4)


def other_bend_in_the_head(model: Any) -> None:
    model.cls.predictions.transform.transform_act_fn = torch.nn.GELU(approximate="tanh")


def other_base_in_layer_1(model: Any) -> None:
    class Other(nn.Module):
        def __init__(self, attention: nn.Module, rotary: nn.Module) -> None:
            super().__init__()
            self.inner, self.rotary = attention, [copy.deepcopy(rotary)]
            self.rotary[0].inv_freq = 500000.0 ** -(torch.arange(0, 4, 2) / 4)

        def forward(self, hidden_states: torch.Tensor, **more: Any) -> Any:
            places = torch.arange(hidden_states.shape[1])[None]
            angles = self.rotary[0](hidden_states, places)
            return self.inner(hidden_states, **{**more, "position_embeddings": angles})

    layer = model.model.layers[1]
    layer.self_attn = Other(layer.self_attn, model.model.rotary_emb)


def other_epsilon_in_layer_1(model: Any) -> None:
    for part in (model.model.layers[1].input_layernorm, model.model.layers[1].post_attention_layernorm):
        part.variance_epsilon = 1e-5


def other_epsilon(model: Any) -> None:
    for name, part in model.named_modules():
        if name.endswith("LayerNorm"):
            part.eps = 1e-5


@pytest.mark.parametrize(
    ("make", "alter", "cause"),
    [
        (gpt2, without_bias, "bias-missing"),
        (llama, other_base, "rotary-theta"),
        (bert, other_epsilon, "norm-eps"),
        (bert, other_bend_in_the_head, "activation"),
        (llama, other_base_in_layer_1, "rotary-theta"),
        (llama, other_epsilon_in_layer_1, "norm-eps"),
    ],
)
def test_ours_beside_its_home_library(make: Any, alter: Any, cause: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = make().eval()
    for parameter in theirs.parameters():
        parameter.data.normal_(0.05, 0.3)
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    mask = torch.ones_like(IDS)
    mask[1, 4:] = 0
    assert compare_models(ours, theirs, IDS).equal
    assert compare_models(ours, theirs, {"input_ids": IDS, "attention_mask": mask}).equal
    alter(theirs)
    found = compare_models(ours, theirs, IDS)
    assert (found.equal, found.cause) == (False, cause), found.words
    assert found.first_site is not None
    assert (", in decoder.1 alone" in found.words) == alter.__name__.endswith("layer_1")
    if alter is other_bend_in_the_head:
        assert "head.dense.activation 'gelu_tanh' in place of 'gelu'" in found.words
        assert "first at" in found.words
