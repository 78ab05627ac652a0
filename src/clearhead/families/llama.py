"""Llama 2 and 3 (Touvron et al. 2023): rms norms, rotary positions, grouped heads, a gated feed-forward.

The layout that most later families share.
"""

from dataclasses import replace

from clearhead.config import Attention, FeedForward, Head, Layer, Norm, Stack, TransformerConfig
from clearhead.families.family import Family, Settings
from clearhead.families.moves import Rename
from clearhead.families.rope import rotary
from clearhead.families.tasks import decoders


def config_of(s: Settings, form: Attention, mlp_bias: bool, layers: list[int | None]) -> TransformerConfig:
    """The model whose layers differ in their window only."""
    hidden, bend = s["intermediate_size"], s.activation("hidden_act", "silu")
    forward = FeedForward(dim=hidden, activation=bend, gated=True, bias=mlp_bias)
    made = tuple(Layer(self_attention=replace(form, window=w), feed_forward=forward) for w in layers)
    return TransformerConfig(
        dim=s["hidden_size"],
        norm=Norm(kind="rms", eps=s.get("rms_norm_eps", 1e-6)),
        decoder=Stack(layers=made, vocab=s["vocab_size"], norm_out=True),
        head=s.head(Head(tied=s.get("tie_word_embeddings", False))),
        dropout=s.get("attention_dropout", 0.0),
        **s.ids(),
    )


def attention(s: Settings, bias: str = "", width: int | None = None) -> Attention:
    """`width`: of a head, where the file does not say."""
    heads, groups, width = s["num_attention_heads"], s.get("num_key_value_heads"), s.get("head_dim", width)
    return Attention(heads=heads, kv_heads=groups, head_dim=width, causal=True, bias=bias, rotary=rotary(s))


def config_from(s: Settings) -> TransformerConfig:
    form = attention(s, "qkvo" if s.get("attention_bias", False) else "")
    return config_of(s, form, s.get("mlp_bias", False), [None] * s["num_hidden_layers"])


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "model.layers.{}.", "decoder.layers.{}."
    return [
        Rename("model.embed_tokens", "decoder.embedding"),
        Rename(there + "input_layernorm", here + "self_residual.before"),
        *(Rename(f"{there}self_attn.{part}_proj", f"{here}self_attention.{part}") for part in "qkvo"),
        *(Rename(f"{there}self_attn.{part}_norm", f"{here}self_attention.{part}_norm") for part in "qk"),
        Rename(there + "post_attention_layernorm", here + "feed_forward_residual.before"),
        *(Rename(f"{there}mlp.{part}_proj", f"{here}feed_forward.{part}") for part in ("gate", "up", "down")),
        Rename("model.norm", "decoder.norm_out"),
        Rename("lm_head", "head"),
    ]


FAMILY = Family(
    architectures=decoders("Llama"),
    config_from=config_from,
    moves=moves,
    prefix="model.",
    fixed={"rope_interleaved": False},
    ignored=frozenset({"pretraining_tp", "max_sequence_length", "is_llama_config"}),
    constant=(r".*rotary_emb\.inv_freq",),
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
