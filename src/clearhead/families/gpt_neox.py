"""GPT-NeoX and Pythia (Black et al. 2022): parallel branches, rotary positions on a part of each head."""

from clearhead.config import Attention, FeedForward, Head, Layer, Norm, Stack, TransformerConfig
from clearhead.families.family import BARE, LANGUAGE, Family, Settings
from clearhead.families.moves import Rename, SplitHeads
from clearhead.families.rope import rotary
from clearhead.families.tasks import answer_span, text_classifier, token_classifier


def config_from(s: Settings) -> TransformerConfig:
    turned = rotary(s, s.get("rotary_emb_base", 10000.0), s.get("rotary_pct", 0.25))
    bias = "qkvo" if s.get("attention_bias", True) else ""
    layer = Layer(
        self_attention=Attention(heads=s["num_attention_heads"], causal=True, bias=bias, rotary=turned),
        feed_forward=FeedForward(dim=s["intermediate_size"], activation=s.activation("hidden_act", "gelu")),
        parallel=s.get("use_parallel_residual", True),
    )
    return TransformerConfig(
        dim=s["hidden_size"],
        norm=Norm(eps=s.get("layer_norm_eps", 1e-5)),
        decoder=Stack(layers=(layer,) * s["num_hidden_layers"], vocab=s["vocab_size"], norm_out=True),
        head=s.head(Head(tied=s.get("tie_word_embeddings", False))),
        dropout=s.get("hidden_dropout", 0.0),
        **s.ids(),
    )


def moves(config: TransformerConfig) -> list[Rename]:
    assert config.decoder is not None
    there, here = "gpt_neox.layers.{}.", "decoder.layers.{}."
    heads = config.decoder.layers[0].self_attention.heads
    return [
        Rename("gpt_neox.embed_in", "decoder.embedding"),
        Rename(there + "input_layernorm", here + "self_residual.before"),
        SplitHeads(there + "attention.query_key_value", here + "self_attention.*", heads=heads),
        Rename(there + "attention.dense", here + "self_attention.o"),
        Rename(there + "post_attention_layernorm", here + "feed_forward_residual.before"),
        Rename(there + "mlp.dense_h_to_4h", here + "feed_forward.up"),
        Rename(there + "mlp.dense_4h_to_h", here + "feed_forward.down"),
        Rename("gpt_neox.final_layer_norm", "decoder.norm_out"),
        Rename("embed_out", "head"),
    ]


FAMILY = Family(
    architectures={
        "GPTNeoXForCausalLM": LANGUAGE,
        "GPTNeoXModel": BARE,
        "GPTNeoXForSequenceClassification": text_classifier("score", "not_pad", bias=False),
        "GPTNeoXForTokenClassification": token_classifier(),
        "GPTNeoXForQuestionAnswering": answer_span(),
    },
    config_from=config_from,
    moves=moves,
    prefix="gpt_neox.",
    ignored=frozenset({"attention_dropout"}),
    constant=(r".*attention\.(masked_)?bias", r".*rotary_emb\.inv_freq"),
    copies={"embed_out.weight": "gpt_neox.embed_in.weight"},
)
