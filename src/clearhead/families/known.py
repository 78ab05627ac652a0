"""Which family a config.json belongs to. The name of the class decides about the head, never the folder's name."""

from collections.abc import Mapping
from typing import Any, cast

from clearhead.families import (
    albert,
    bart,
    bert,
    distilbert,
    gemma,
    gemma2,
    gemma3,
    gemma3_pictures,
    gpt2,
    gpt_neox,
    llama,
    m2m100,
    marian,
    mbart,
    mistral,
    modernbert,
    mpnet,
    mt5,
    olmo2,
    pegasus,
    phi3,
    qwen2,
    qwen3,
    roberta,
    starcoder2,
    t5,
    whisper,
    xlm_roberta,
)
from clearhead.families.family import Family, Task

FAMILIES: dict[str, Family] = {  # by model_type
    "gpt2": gpt2.FAMILY,
    "gpt_neox": gpt_neox.FAMILY,
    "llama": llama.FAMILY,
    "mistral": mistral.FAMILY,
    "qwen2": qwen2.FAMILY,
    "qwen3": qwen3.FAMILY,
    "gemma": gemma.FAMILY,
    "gemma2": gemma2.FAMILY,
    "gemma3_text": gemma3.FAMILY,
    "gemma3": gemma3_pictures.FAMILY,
    "phi3": phi3.FAMILY,
    "olmo2": olmo2.FAMILY,
    "starcoder2": starcoder2.FAMILY,
    "bert": bert.FAMILY,
    "roberta": roberta.FAMILY,
    "xlm-roberta": xlm_roberta.FAMILY,
    "mpnet": mpnet.FAMILY,
    "distilbert": distilbert.FAMILY,
    "albert": albert.FAMILY,
    "modernbert": modernbert.FAMILY,
    "t5": t5.FAMILY,
    "mt5": mt5.FAMILY,
    "bart": bart.FAMILY,
    "marian": marian.FAMILY,
    "m2m_100": m2m100.FAMILY,
    "mbart": mbart.FAMILY,
    "pegasus": pegasus.FAMILY,
    "whisper": whisper.FAMILY,
}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def family_of(content: dict[str, Any]) -> tuple[Family, Task]:
    """The family of a config.json, and what the class that it names has on top.

    Raises ValueError for an architecture that is not known, listing those that are.
    """
    kind = content.get("model_type")
    named: Any = content.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in cast(list[Any], named)):
        raise ValueError(f"config.json names the architectures {named!r}; expected a list with the name of one class")
    if has_experts(content):
        raise ValueError(f"config.json has model_type {kind!r}, a mixture of experts; those are not yet supported")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise ValueError(
            f"config.json has model_type {kind!r}, which is not known; known are clearhead, {', '.join(FAMILIES)}. "
            "To add one, see docs/families.md"
        )
    name = named[0] if named else next(iter(family.architectures))
    if name not in family.architectures:
        raise ValueError(
            f"config.json names the architecture {name}; of model_type {kind!r} this version knows "
            f"{', '.join(family.architectures)}"
        )
    return family, family.architectures[name]


def has_experts(content: Mapping[str, Any]) -> bool:
    """Whether the model, or a part of it, is a mixture of experts."""
    parts = (cast(dict[str, Any], value) for value in content.values() if isinstance(value, dict))
    return any(content.get(key) for key in EXPERTS) or any(has_experts(part) for part in parts)
