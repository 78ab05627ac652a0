"""GPT-2 (Radford et al. 2019): pre-norm, learned positions, one matrix for q, k and v, stored transposed."""

from clearhead.config import Attention, FeedForward, Head, Layer, Norm, Positions, Stack, TransformerConfig
from clearhead.families.family import BARE, LANGUAGE, Family, Settings, words
from clearhead.families.moves import Rename, SplitTransposed, Transpose
from clearhead.families.tasks import answer_span, text_classifier, token_classifier


def config_from(s: Settings) -> TransformerConfig:
    dim = s["n_embd"]
    scale = None if s.get("scale_attn_weights", True) else 1.0
    layer = Layer(
        self_attention=Attention(heads=s["n_head"], causal=True, bias="qkvo", scale=scale),
        feed_forward=FeedForward(
            dim=s.get("n_inner", 4 * dim), activation=s.activation("activation_function", "gelu_new")
        ),
    )
    table = Positions(kind="learned", count=s["n_positions"])
    return TransformerConfig(
        dim=dim,
        norm=Norm(eps=s.get("layer_norm_epsilon", 1e-5)),
        decoder=Stack(layers=(layer,) * s["n_layer"], vocab=s["vocab_size"], positions=table, norm_out=True),
        head=s.head(Head(tied=s.get("tie_word_embeddings", True))),
        dropout=s.get("resid_pdrop", 0.1),
        **s.ids(),
    )


def moves(config: TransformerConfig) -> list[Rename]:
    there, here = "transformer.h.{}.", "decoder.layers.{}."
    return [
        Rename("transformer.wte", "decoder.embedding"),
        Rename("transformer.wpe", "decoder.positions.table"),
        Rename(there + "ln_1", here + "self_residual.before"),
        SplitTransposed(there + "attn.c_attn", here + "self_attention.*"),
        Transpose(there + "attn.c_proj", here + "self_attention.o"),
        Rename(there + "ln_2", here + "feed_forward_residual.before"),
        Transpose(there + "mlp.c_fc", here + "feed_forward.up"),
        Transpose(there + "mlp.c_proj", here + "feed_forward.down"),
        Rename("transformer.ln_f", "decoder.norm_out"),
        Rename("lm_head", "head"),
    ]


FAMILY = Family(
    architectures={
        "GPT2LMHeadModel": LANGUAGE,
        "GPT2Model": BARE,
        "GPT2ForSequenceClassification": text_classifier("score", "not_pad", bias=False),
        "GPT2ForTokenClassification": token_classifier(),
        "GPT2ForQuestionAnswering": answer_span(),
    },
    config_from=config_from,
    moves=moves,
    prefix="transformer.",
    fixed={"scale_attn_by_inverse_layer_idx": False},
    ignored=words(
        "n_ctx attn_pdrop embd_pdrop reorder_and_upcast_attn summary_type summary_use_proj summary_activation "
        "summary_proj_to_labels summary_first_dropout"
    ),
    constant=(r".*attn\.(masked_)?bias",),
    copies={"lm_head.weight": "transformer.wte.weight"},
)
