"""Gemma 3, text (Gemma Team 2025): norms on q and k instead of caps, five local layers to one global."""

from dataclasses import replace

from clearhead.config import TransformerConfig
from clearhead.families import gemma, gemma2
from clearhead.families.family import LANGUAGE, Settings
from clearhead.families.rope import FULL, LOCAL, rotary, windows
from clearhead.families.tasks import decoders


def config_from(s: Settings) -> TransformerConfig:
    count, cap = s["num_hidden_layers"], s.get("final_logit_softcapping")
    form = replace(gemma2.scaled(s), softcap=s.get("attn_logit_softcapping"), qk_norm="head")
    every = s.get("sliding_window_pattern", s.get("_sliding_window_pattern", 6))
    local = windows(s, count, [LOCAL if (i + 1) % every else FULL for i in range(count)])
    far = replace(form, rotary=rotary(s, 1e6, kind=FULL))
    near = replace(form, rotary=rotary(s, 1e4, kind=LOCAL))
    forms = [far if w is None else replace(near, window=w) for w in local]
    return gemma.config_of(s, forms, s.activation("hidden_activation", gemma.TANH), True, cap)


FAMILY = replace(
    gemma2.FAMILY,
    architectures={"Gemma3ForCausalLM": LANGUAGE, **decoders("Gemma3Text", tokens=False)},
    config_from=config_from,
)
