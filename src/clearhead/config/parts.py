"""The parts of a model, as plain data: norms, attention, feed-forward, layers, stacks, heads.

Optional parts are `None` or present. Nothing here knows torch, and nothing here knows the name of a model family.
"""

from dataclasses import dataclass
from typing import Literal

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "tanh"]
Pool = Literal["first", "last", "mean", "max", "eos", "not_pad"]  # see TextClassifier


@dataclass(frozen=True, kw_only=True)
class Norm:
    """`layer` (Ba et al. 2016), `layer_gain`: that without a shift, `rms` (Zhang & Sennrich 2019), or `rms_plus_one`:
    its stored gain is w in (1 + w).
    """

    kind: Literal["layer", "layer_gain", "rms", "rms_plus_one"] = "layer"
    eps: float = 1e-5


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Rotary frequencies divided by `factor` (position interpolation, Chen et al. 2023)."""

    factor: float


@dataclass(frozen=True, kw_only=True)
class Bands:
    """Long wavelengths divided by `factor`, short ones kept, those between blended (Llama 3, section 3.2)."""

    factor: float
    low: float
    high: float
    length: int


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """Interpolation by frequency band with a correction of the score's temperature (Peng et al. 2023)."""

    factor: float
    length: int
    fast: float = 32.0
    slow: float = 1.0
    attention_factor: float | None = None  # None: 0.1 ln(factor) + 1
    truncate: bool = True  # whole numbers as the ends of the blended band


@dataclass(frozen=True, kw_only=True)
class LongRope:
    """Frequencies divided pair by pair, by `short` in texts of up to `length` positions, by `long` in longer ones
    (Ding et al. 2024).
    """

    short: tuple[float, ...]  # one number for each pair that turns
    long: tuple[float, ...]
    length: int
    attention_factor: float = 1.0  # cosine and sine are multiplied by it


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotary positions (Su et al. 2021) on the first `fraction` of each head."""

    theta: float = 10000.0
    fraction: float = 1.0
    layout: Literal["half", "pairs"] = "half"  # which two numbers turn together: (i, i + E/2) or (2i, 2i + 1)
    scaling: Linear | Bands | Yarn | LongRope | None = None


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Queries from x, keys and values from y. Self-attention is y = x."""

    heads: int
    kv_heads: int | None = None  # None: as many as heads
    head_dim: int | None = None  # None: dim / heads
    causal: bool = False
    window: int | None = None  # a query sees keys less than this many positions away
    scale: float | None = None  # None: 1 / sqrt(head_dim)
    softcap: float | None = None  # scores become cap * tanh(scores / cap)
    bias: str = ""  # which of the four projections carry a bias vector: letters out of "qkvo"
    qk_norm: Literal["head", "width"] | None = None  # normalise q and k per head, or over all heads together
    rotary: Rotary | None = None

    @property
    def groups(self) -> int:
        """Key/value heads (G)."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def width(self, dim: int) -> int:
        """Width of one head (E) in a model of width `dim`."""
        return dim // self.heads if self.head_dim is None else self.head_dim


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """activation(x W1) W2, or with a gate (activation(x Wg) * (x W1)) W2 (Shazeer 2020)."""

    dim: int
    activation: Activation = "relu"
    gated: bool = False
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Two or three branches, each added to the residual.

    pre: x + f(norm(x))    post: norm(x + f(x))    output: x + norm(f(x))    sandwich: x + norm(f(norm(x)))
    """

    self_attention: Attention
    feed_forward: FeedForward
    cross_attention: Attention | None = None
    norm_place: Literal["pre", "post", "output", "sandwich"] = "pre"
    bare: bool = False  # the self-attention reads x as it is: no norm before it
    parallel: bool = False  # all branches read the same x: x + attention(norm(x)) + feed_forward(norm(x))


@dataclass(frozen=True, kw_only=True)
class Positions:
    """What is added to the embedding of a token at position p: row p + offset of a table."""

    kind: Literal["learned", "interleaved", "halves", "halves_inclusive"]
    count: int | None = None  # rows that may be used, without the offset; None (not for learned): no limit
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class RelativeBias:
    """One learned number per head and bucket of distance, added to the scores (T5; Raffel et al. 2020, section 2.1)."""

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True


@dataclass(frozen=True, kw_only=True)
class Audio:
    """Frames of sound instead of tokens: two convolutions of width 3, the second with stride 2, each followed by gelu
    (Radford et al. 2022, section 2.2).
    """

    bins: int  # numbers per frame: the channels of a log-mel spectrogram


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Embedding, layers, norms: an encoder or a decoder."""

    layers: tuple[Layer, ...]
    vocab: int  # 0: an encoder of audio
    audio: Audio | None = None
    embedding_dim: int | None = None  # width of the tables, mapped to the model's width after norm_in; None: the same
    shared: tuple[int, ...] | None = None  # which set of weights each layer uses, such as (0, 0, 0); None: its own
    embedding_scale: float = 1.0
    positions: Positions | None = None
    token_types: int = 0  # rows of the segment table; 0: none
    norm_in: bool = False  # a norm right after the embedding
    norm_out: bool = False  # a norm after the last layer
    relative_bias: RelativeBias | None = None


@dataclass(frozen=True, kw_only=True)
class Dense:
    """norm(activation(x W)), in front of what a head gives."""

    width: int | None = None  # of the result; None: the model's
    activation: Activation | None = None
    bias: bool = True
    norm: bool = False


@dataclass(frozen=True, kw_only=True)
class Head:
    """From the last hidden state to one logit per token of the vocabulary."""

    tied: bool = True  # the output matrix is the embedding of the stack below it
    bias: bool = False
    scale: float = 1.0
    softcap: float | None = None
    dense: Dense | None = None


@dataclass(frozen=True, kw_only=True)
class TextClassifier:
    """From the state that stands for a text to one logit per label.

    pool: the state of the first or last token (that the attention mask keeps), the mean or the largest number of each
    feature over all tokens, the state of the last token that ends a text (`eos`), or of the last that is not `pad`.
    """

    labels: tuple[str, ...]
    pool: Pool
    dense: Dense | None = None
    bias: bool = True
    answer: Literal["one", "any", "number"] = "one"  # one label, any number of them, or a number in each label's place


@dataclass(frozen=True, kw_only=True)
class TokenClassifier:
    """From the state of each token to one logit per label."""

    labels: tuple[str, ...]
    dense: Dense | None = None
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class AnswerSpan:
    """From the state of each token to two logits: how well the answer to a question starts and ends there."""

    dense: Dense | None = None
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class TextEmbedding:
    """From the state that stands for a text (pool as in TextClassifier) to one vector."""

    pool: Pool
    dense: Dense | None = None
    normalise: bool = False  # to length 1


AnyHead = Head | TextClassifier | TokenClassifier | AnswerSpan | TextEmbedding
