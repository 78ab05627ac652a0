"""BART (Lewis et al. 2020): post-norm, learned positions, a norm after the embedding.

Marian, M2M100, mBART, Pegasus and Whisper share its layout; they differ in positions, in where the norms stand, and in
the embedding's scale.
"""

from dataclasses import replace

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.families.family import BARE, LANGUAGE, Family, Settings, words
from clearhead.families.moves import Rename, Row
from clearhead.families.tasks import READER, answer_span


def stack_of(s: Settings, name: str, vocab: int, activation: str, pre: bool, bias: str = "qkvo") -> Stack:
    """The encoder or decoder. `pre`: norms before each branch and after the last layer, not after each branch."""
    look = Attention(heads=s[f"{name}_attention_heads"], bias=bias)
    forward = FeedForward(dim=s[f"{name}_ffn_dim"], activation=s.activation("activation_function", activation))
    layer = Layer(self_attention=look, feed_forward=forward, norm_place="pre" if pre else "post")
    if name == "decoder":
        layer = replace(layer, self_attention=replace(look, causal=True), cross_attention=look)
    return Stack(layers=(layer,) * s[f"{name}_layers"], vocab=vocab, norm_out=pre)


def config_of(s: Settings, positions: Positions, activation: str, pre: bool, norm_in: bool) -> TransformerConfig:
    """Both stacks have positions of this kind, and perhaps a norm after the embedding."""
    vocab, scale = s["vocab_size"], s["d_model"] ** 0.5 if s.get("scale_embedding", False) else 1.0
    shared = s.get("share_encoder_decoder_embeddings", True)
    words = {"encoder": vocab, "decoder": vocab if shared else s.get("decoder_vocab_size", vocab)}
    stacks = {name: stack_of(s, name, words[name], activation, pre) for name in words}
    into = {"embedding_scale": scale, "positions": positions, "norm_in": norm_in}
    return TransformerConfig(
        dim=s["d_model"],
        **{name: replace(stack, **into) for name, stack in stacks.items()},
        head=s.head(Head(tied=s.get("tie_word_embeddings", True), bias="final_logits_bias" in s.tensors)),
        shared_embeddings=shared,
        dropout=s.get("dropout", 0.1),
        **s.ids(),
    )


def config_from(s: Settings) -> TransformerConfig:
    table = Positions(kind="learned", count=s.get("max_position_embeddings", 1024), offset=2)
    config = config_of(s, table, "gelu", pre=False, norm_in=True)
    return config if config.start is not None else replace(config, start=2)


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


PLAIN = {"normalize_before": False, "add_final_layer_norm": False}
FAMILY = Family(
    architectures={
        "BartForConditionalGeneration": LANGUAGE,
        "BartModel": BARE,
        "BartForSequenceClassification": READER,
        "BartForQuestionAnswering": answer_span(),
    },
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
