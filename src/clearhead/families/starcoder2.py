"""StarCoder2 (Lozhkov et al. 2024): Llama's attention, with GPT-2's norms, biases and feed-forward."""

from dataclasses import replace

from clearhead.config import FeedForward, Head, Layer, Norm, Stack, TransformerConfig
from clearhead.families import llama
from clearhead.families.family import Settings, words
from clearhead.families.moves import Rename
from clearhead.families.tasks import decoders


def config_from(s: Settings) -> TransformerConfig:
    bias, bend = s.get("use_bias", True), s.activation("hidden_act", "gelu_pytorch_tanh")
    form = replace(llama.attention(s, "qkvo" if bias else ""), window=s.get("sliding_window"))
    layer = Layer(self_attention=form, feed_forward=FeedForward(dim=s["intermediate_size"], activation=bend, bias=bias))
    return TransformerConfig(
        dim=s["hidden_size"],
        norm=Norm(eps=s.get("norm_epsilon", 1e-5)),
        decoder=Stack(layers=(layer,) * s["num_hidden_layers"], vocab=s["vocab_size"], norm_out=True),
        head=s.head(Head(tied=s.get("tie_word_embeddings", True))),
        dropout=s.get("residual_dropout", 0.0),
        **s.ids(),
    )


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "model.layers.{}.mlp.", "decoder.layers.{}.feed_forward."
    attention = [move for move in llama.moves(config) if ".mlp." not in move.theirs]
    return [*attention, Rename(there + "c_fc", here + "up"), Rename(there + "c_proj", here + "down")]


FAMILY = replace(
    llama.FAMILY,
    architectures=decoders("Starcoder2"),
    config_from=config_from,
    moves=moves,
    fixed={"mlp_type": "default", "norm_type": "layer_norm"},
    ignored=words("attention_dropout attention_softmax_in_fp32 embedding_dropout scale_attention_softmax_in_fp32"),
)
