"""Phi-3, Phi-3.5 and Phi-4-mini (Abdin et al. 2024): Llama's layout with q, k, v and gate, up in one matrix each."""

from dataclasses import replace

from clearhead.config import Attention, Norm, TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings, words
from clearhead.families.moves import Rename, Split
from clearhead.families.rope import rotary
from clearhead.families.tasks import decoders


def config_from(s: Settings) -> TransformerConfig:
    share, trained = s.get("partial_rotary_factor", 1.0), s.get("original_max_position_embeddings", 4096)
    heads, groups = s["num_attention_heads"], s.get("num_key_value_heads")
    form = Attention(heads=heads, kv_heads=groups, causal=True, rotary=rotary(s, fraction=share, trained=trained))
    config = llama.config_of(s, form, False, [s.optional("sliding_window", None)] * s["num_hidden_layers"])
    return replace(config, norm=Norm(kind="rms", eps=s.get("rms_norm_eps", 1e-5)))


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "model.layers.{}.", "decoder.layers.{}."
    fused = [f"{there}{part}_proj" for part in ("self_attn.q", "self_attn.k", "self_attn.v", "mlp.gate", "mlp.up")]
    return [
        *(move for move in llama.moves(config) if move.theirs not in fused),
        Split(there + "self_attn.qkv_proj", here + "self_attention.*"),
        Split(there + "mlp.gate_up_proj", here + "feed_forward.*", names=("gate", "up")),
    ]


FAMILY = replace(
    llama.FAMILY,
    architectures=decoders("Phi3"),
    config_from=config_from,
    moves=moves,
    fixed={"attention_bias": False, "mlp_bias": False, "lm_head_bias": False},
    ignored=words("auto_map resid_pdrop embd_pdrop full_attn_mod interpolate_factor"),
)
