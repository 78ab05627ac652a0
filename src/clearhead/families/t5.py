"""T5 (Raffel et al. 2020) and T5 1.1 / Flan-T5: scores without a scale, bucketed distances, rms norms, no biases."""

from dataclasses import replace

from clearhead.config import Attention, FeedForward, Head, Layer, Norm, RelativeBias, Stack, TransformerConfig
from clearhead.families.family import ACTIVATIONS, BARE, LANGUAGE, Family, Settings
from clearhead.families.moves import Rename
from clearhead.families.tasks import READER, answer_span, token_classifier


def feed_forward(s: Settings, usual: str) -> FeedForward:
    """`feed_forward_proj` is an activation, or gated- and an activation; gated-gelu means its approximation."""
    name = s.get("feed_forward_proj", usual)
    gate, bend = name.startswith("gated-"), name.removeprefix("gated-")
    bend = "gelu_new" if name == "gated-gelu" else bend
    if bend not in ACTIVATIONS:
        raise ValueError(f"config.json sets feed_forward_proj to {name!r}; known are {', '.join(ACTIVATIONS)}")
    return FeedForward(dim=s["d_ff"], activation=ACTIVATIONS[bend], gated=gate, bias=False)


def config_from(s: Settings) -> TransformerConfig:
    return config_of(s, "relu")


def config_of(s: Settings, forward: str) -> TransformerConfig:
    """`forward`: where the file does not say."""
    look = Attention(heads=s["num_heads"], head_dim=s["d_kv"], scale=1.0)
    read = Layer(self_attention=look, feed_forward=feed_forward(s, forward))
    write = replace(read, self_attention=replace(look, causal=True), cross_attention=look)
    buckets = {
        "buckets": s.get("relative_attention_num_buckets", 32),
        "max_distance": s.get("relative_attention_max_distance", 128),
    }
    both, back = RelativeBias(**buckets), RelativeBias(**buckets, bidirectional=False)
    dim, vocab, count = s["d_model"], s["vocab_size"], s["num_layers"]
    scaled = s.get("scale_decoder_outputs", s.get("tie_word_embeddings", True))
    own = "lm_head.weight" in s.tensors  # the file knows better than tie_word_embeddings, which later versions rewrite
    ids = {"start": s.get("pad_token_id", 0), **s.ids()}
    return TransformerConfig(
        dim=dim,
        norm=Norm(kind="rms", eps=s.get("layer_norm_epsilon", 1e-6)),
        encoder=Stack(layers=(read,) * count, vocab=vocab, norm_out=True, relative_bias=both),
        decoder=Stack(
            layers=(write,) * s.get("num_decoder_layers", count), vocab=vocab, norm_out=True, relative_bias=back
        ),
        head=s.head(Head(tied=not own, scale=dim**-0.5 if scaled else 1.0)),
        shared_embeddings=True,
        dropout=s.get("dropout_rate", 0.1),
        **ids,
    )


def moves(config: TransformerConfig) -> list[Rename]:
    assert config.encoder is not None
    gated = config.encoder.layers[0].feed_forward.gated
    inner = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if gated else {"wi": "up", "wo": "down"}
    both = [*side("encoder", 1, inner), *side("decoder", 2, inner)]
    return [Rename("transformer.shared", "encoder.embedding"), *both, Rename("lm_head", "head")]


def side(name: str, last: int, inner: dict[str, str]) -> list[Rename]:
    """One stack. Branches are numbered; `last` is the feed-forward, whose matrices are `inner`."""
    stack, here = f"transformer.{name}", name + ".layers.{}."
    there = stack + ".block.{}.layer."
    return [
        Rename(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias", f"{name}.relative_bias.table"),
        *(Rename(f"{there}0.SelfAttention.{q}", f"{here}self_attention.{q}") for q in "qkvo"),
        *(Rename(f"{there}1.EncDecAttention.{q}", f"{here}cross_attention.{q}") for q in "qkvo"),
        Rename(there + "0.layer_norm", here + "self_residual.before"),
        Rename(there + "1.layer_norm", here + "cross_residual.before"),
        Rename(f"{there}{last}.layer_norm", here + "feed_forward_residual.before"),
        *(Rename(f"{there}{last}.DenseReluDense.{wi}", f"{here}feed_forward.{up}") for wi, up in inner.items()),
        Rename(f"{stack}.final_layer_norm", f"{name}.norm_out"),
    ]


FAMILY = Family(
    architectures={
        "T5ForConditionalGeneration": LANGUAGE,
        "T5WithLMHeadModel": LANGUAGE,
        "T5Model": BARE,
        "T5EncoderModel": replace(BARE, encodes=True),
        "T5ForSequenceClassification": READER,
        "T5ForTokenClassification": replace(token_classifier(), encodes=True),
        "T5ForQuestionAnswering": answer_span(),
    },
    config_from=config_from,
    moves=moves,
    prefix="transformer.",  # in the files of some classes
    prefixed=False,
    ignored=frozenset({"dense_act_fn", "is_gated_act", "n_positions"}),  # the first two follow from feed_forward_proj
    extra=(r"(transformer\.)?decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    copies={
        "transformer.encoder.embed_tokens.weight": "transformer.shared.weight",
        "transformer.decoder.embed_tokens.weight": "transformer.shared.weight",
    },
)
