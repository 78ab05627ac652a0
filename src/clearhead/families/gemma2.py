"""Gemma 2, text (Gemma Team 2024): norms on both sides of a branch, windows in every other layer, capped scores."""

from dataclasses import replace

from clearhead.config import Attention, TransformerConfig
from clearhead.families import gemma, llama
from clearhead.families.family import Settings
from clearhead.families.moves import Rename
from clearhead.families.rope import FULL, LOCAL, windows
from clearhead.families.tasks import decoders


def scaled(s: Settings) -> Attention:
    """As in 2 and 3, whose scores are divided by the root of a number of their own."""
    return replace(gemma.attention_of(s), scale=s.get("query_pre_attn_scalar", 256) ** -0.5)


def config_from(s: Settings) -> TransformerConfig:
    count, form = s["num_hidden_layers"], replace(scaled(s), softcap=s.optional("attn_logit_softcapping", 50.0))
    local = windows(s, count, [FULL if i % 2 else LOCAL for i in range(count)])
    forms = [replace(form, window=w) for w in local]
    cap = s.optional("final_logit_softcapping", 30.0)
    return gemma.config_of(s, forms, s.activation("hidden_activation", gemma.TANH), True, cap)


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "model.layers.{}.", "decoder.layers.{}."
    after = there + "post_attention_layernorm"
    return [
        *(move for move in llama.moves(config) if move.theirs != after),
        Rename(after, here + "self_residual.after"),
        Rename(there + "pre_feedforward_layernorm", here + "feed_forward_residual.before"),
        Rename(there + "post_feedforward_layernorm", here + "feed_forward_residual.after"),
    ]


FAMILY = replace(
    gemma.FAMILY,
    architectures=decoders("Gemma2"),
    config_from=config_from,
    moves=moves,
    ignored=frozenset({"hidden_act", "sliding_window_size"}),
)
