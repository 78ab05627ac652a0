"""Mixtures of experts: none can be run yet, and each says so by its name."""

import json

import pytest
from transformers import AutoConfig

from clearhead.families.known import FAMILIES, family_of

MIXTURES = (
    "mixtral qwen2_moe qwen3_moe qwen3_next olmoe phimoe deepseek_v2 deepseek_v3 gpt_oss granitemoe jamba jetmoe "
    "glm4_moe minimax ernie4_5_moe hunyuan_v1_moe switch_transformers nllb-moe flex_olmo lfm2_moe"
)
INSIDE = "dbrx llama4 qwen3_vl_moe"  # whose experts stand in a part of the config


@pytest.mark.parametrize("kind", f"{MIXTURES} {INSIDE}".split())
def test_a_mixture_of_experts_is_not_yet(kind: str) -> None:
    content = json.loads(AutoConfig.for_model(kind).to_json_string(use_diff=False))
    with pytest.raises(ValueError, match=f"model_type '{kind}', a mixture of experts; those are not yet supported"):
        family_of(content)


def test_a_family_without_experts_is_none() -> None:
    for kind, family in FAMILIES.items():
        assert family_of({"model_type": kind, "num_experts": 0, "text_config": {"num_experts": None}})[0] is family
