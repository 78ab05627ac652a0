"""BART (Lewis et al. 2020): post-norm, learned positions, a norm after the embedding.

Marian and M2M100 share its layout; they differ in positions, in where the norms stand, and in the embedding's scale.
"""

from dataclasses import replace

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.families.family import Family, Settings, words
from clearhead.families.moves import Rename, Row


def config_of(s: Settings, positions: Positions, activation: str, pre: bool, norm_in: bool) -> TransformerConfig:
    """`pre`: norms before each branch and after the last layer, instead of after each branch."""
    vocab, scale = s["vocab_size"], s["d_model"] ** 0.5 if s.get("scale_embedding", False) else 1.0
    shared = s.get("share_encoder_decoder_embeddings", True)
    words = {"encoder": vocab, "decoder": vocab if shared else s.get("decoder_vocab_size", vocab)}

    def stack(name: str) -> Stack:
        look = Attention(heads=s[f"{name}_attention_heads"], bias="qkvo")
        forward = FeedForward(dim=s[f"{name}_ffn_dim"], activation=s.activation("activation_function", activation))
        layer = Layer(self_attention=look, feed_forward=forward, norm_place="pre" if pre else "post")
        if name == "decoder":
            layer = replace(layer, self_attention=replace(look, causal=True), cross_attention=look)
        return Stack(
            layers=(layer,) * s[f"{name}_layers"],
            vocab=words[name],
            embedding_scale=scale,
            positions=positions,
            norm_in=norm_in,
            norm_out=pre,
        )

    return TransformerConfig(
        dim=s["d_model"],
        encoder=stack("encoder"),
        decoder=stack("decoder"),
        head=Head(tied=s.get("tie_word_embeddings", True), bias="final_logits_bias" in s.tensors) if s.head else None,
        shared_embeddings=shared,
        dropout=s.get("dropout", 0.1),
        **s.ids(),
    )


def config_from(s: Settings) -> TransformerConfig:
    table = Positions(kind="learned", count=s.get("max_position_embeddings", 1024), offset=2)
    return config_of(s, table, "gelu", pre=False, norm_in=True)


def moves(config: TransformerConfig) -> list[Rename]:
    shared = [Rename("model.shared", "encoder.embedding")]
    apart = [Rename(f"model.{name}.embed_tokens", f"{name}.embedding") for name in config.stacks]
    both = [move for name, stack in config.stacks.items() for move in side(name, stack)]
    head = [Row("final_logits_bias", "head.bias"), Rename("lm_head.weight", "head.weight")]
    return [*(shared if config.shared_embeddings else apart), *both, *head]


def side(name: str, stack: Stack) -> list[Rename]:
    there, here = f"model.{name}.layers.{{}}.", f"{name}.layers.{{}}."
    projections = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}
    norm = "before" if stack.norm_out else "total"
    return [
        Rename(f"model.{name}.embed_positions", f"{name}.positions.table"),
        Rename(f"model.{name}.layernorm_embedding", f"{name}.norm_in"),
        *(Rename(f"{there}self_attn.{long}", f"{here}self_attention.{q}") for long, q in projections.items()),
        *(Rename(f"{there}encoder_attn.{long}", f"{here}cross_attention.{q}") for long, q in projections.items()),
        Rename(there + "self_attn_layer_norm", f"{here}self_residual.{norm}"),
        Rename(there + "encoder_attn_layer_norm", f"{here}cross_residual.{norm}"),
        Rename(there + "final_layer_norm", f"{here}feed_forward_residual.{norm}"),
        Rename(there + "fc1", here + "feed_forward.up"),
        Rename(there + "fc2", here + "feed_forward.down"),
        Rename(f"model.{name}.layer_norm", f"{name}.norm_out"),
    ]


PLAIN = {"is_decoder": False, "normalize_before": False, "add_final_layer_norm": False}
FAMILY = Family(
    architectures={"BartForConditionalGeneration": True, "BartModel": False},
    config_from=config_from,
    moves=moves,
    prefix="model.",
    fixed={**PLAIN, "normalize_embedding": True, "static_position_embeddings": False, "extra_pos_embeddings": 2},
    ignored=words(
        "attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop num_hidden_layers add_bias_logits "
        "force_bos_token_to_be_generated"
    ),
    copies={
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": "model.shared.weight",
    },
)
