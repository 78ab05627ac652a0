"""Which family a config.json belongs to. The name of the class decides about the head, never the folder's name."""

from typing import Any

from clearhead.families import (
    bart,
    bert,
    gemma,
    gemma2,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    m2m100,
    marian,
    mistral,
    qwen2,
    qwen3,
    roberta,
    t5,
)
from clearhead.families.family import Family

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
    "bert": bert.FAMILY,
    "roberta": roberta.FAMILY,
    "t5": t5.FAMILY,
    "bart": bart.FAMILY,
    "marian": marian.FAMILY,
    "m2m_100": m2m100.FAMILY,
}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def family_of(content: dict[str, Any]) -> tuple[Family, bool]:
    """The family of a config.json, and whether the model has its head.

    Raises ValueError for an architecture that is not known, listing those that are.
    """
    kind = content.get("model_type")
    named: list[str] = content.get("architectures") or []
    if any(content.get(key) for key in EXPERTS):
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
