"""Models whose next-token probabilities are written down, and a small real one of each kind."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, RelativeBias, Rotary, Stack
from clearhead.config import TransformerConfig as Config
from clearhead.model.transformer import Output, Transformer

Odds = Callable[[tuple[int, ...]], dict[int, float]]


def decoder_only(vocab: int = 11, positions: Positions | None = None, **changes: Any) -> Transformer:
    own = Attention(heads=2, causal=True, bias="qkvo", rotary=None if positions else Rotary())
    layer = Layer(self_attention=own, feed_forward=FeedForward(dim=16))
    stack = Stack(layers=(layer,) * 2, vocab=vocab, positions=positions, norm_out=True)
    return _wide(Transformer(Config(**{"dim": 8, "decoder": stack, "bos": 0, "pad": 1, "eos": 2, **changes})))


def encoder_decoder(vocab: int = 13, table: int | None = None, **changes: Any) -> Transformer:
    """With T5's bias, which is added to the scores. `table`: a learned table with so many rows for the decoder."""
    cross, feed = Attention(heads=2), FeedForward(dim=16)
    read = Layer(self_attention=Attention(heads=2), feed_forward=feed)
    write = Layer(self_attention=Attention(heads=2, causal=True), cross_attention=cross, feed_forward=feed)
    bias = RelativeBias(buckets=8, max_distance=6)
    encoder = Stack(layers=(read,) * 2, vocab=17, relative_bias=bias, norm_out=True)
    places = None if table is None else Positions(kind="learned", count=table)
    own = RelativeBias(buckets=8, max_distance=6, bidirectional=False)
    decoder = Stack(layers=(write,) * 2, vocab=vocab, positions=places, relative_bias=own, norm_out=True)
    ids = {"bos": 0, "pad": 1, "eos": 2, "start": 2, **changes}
    return _wide(Transformer(Config(dim=8, encoder=encoder, decoder=decoder, **ids)))


def encoder_only() -> Transformer:
    layer = Layer(self_attention=Attention(heads=2), feed_forward=FeedForward(dim=16))
    return Transformer(Config(dim=8, encoder=Stack(layers=(layer,), vocab=11), head=Head(), bos=0))


def _wide(model: Transformer) -> Transformer:
    """Larger weights than a fresh model has, so that its choices are clear."""
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.7)
    return model.eval()


class Toy(Transformer):
    """A decoder whose next-token probabilities are `odds(tokens after the prompt's first)`, whatever its layers say."""

    def __init__(self, odds: Odds, vocab: int, **ids: Any) -> None:
        layer = Layer(self_attention=Attention(heads=1, causal=True), feed_forward=FeedForward(dim=2))
        super().__init__(Config(dim=2, decoder=Stack(layers=(layer,), vocab=vocab), **ids))
        self.odds, self.vocab, self.calls = odds, vocab, 0
        self.eval()

    def forward(self, *args: Any, **kwargs: Any) -> Output:
        out = super().forward(*args, **kwargs)
        self.calls += 1
        assert out.cache is not None
        assert out.cache.ids is not None
        assert out.logits is not None
        logits = torch.full((len(out.logits), 1, self.vocab), -math.inf)
        for row, text in zip(logits, out.cache.ids.tolist(), strict=True):
            for token, probability in self.odds(tuple(text[1:])).items():
                row[0, token] = math.log(probability)
        return out._replace(logits=logits.expand(-1, out.logits.shape[1], -1))


END, A, B, START = 0, 1, 2, 3


def ab_odds(text: tuple[int, ...]) -> dict[int, float]:
    """The language of case GEN-05."""
    table = {
        (): {A: 0.5, B: 0.4, END: 0.1},
        (A,): {END: 0.72, A: 0.14, B: 0.14},
        (B,): {B: 0.8, END: 0.1, A: 0.1},
        (B, B): {END: 0.95, A: 0.02, B: 0.03},
    }
    return table.get(text, {END: 1 / 3, A: 1 / 3, B: 1 / 3})


def drawn_odds(seed: int, vocab: int) -> Odds:
    """A language whose probabilities after each beginning are drawn at random, the same for the same seed."""

    def odds(text: tuple[int, ...]) -> dict[int, float]:
        code = seed
        for token in text:
            code = (code * 31 + token + 1) % 1_000_003
        draw = torch.randn(vocab, generator=torch.Generator().manual_seed(code)) * 1.5
        return dict(enumerate(draw.double().softmax(0).tolist()))

    return odds


def enumerate_texts(odds: Odds, end: int, most: int) -> list[tuple[tuple[int, ...], float]]:
    """Every text of at most `most` tokens and its log-probability: those that end, and those cut off at `most`."""
    finished: list[tuple[tuple[int, ...], float]] = []
    open_texts: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(most):
        longer = [((*t, i), s + math.log(p)) for t, s in open_texts for i, p in odds(t).items()]
        finished += [found for found in longer if found[0][-1] == end or len(found[0]) == most]
        open_texts = [found for found in longer if found[0][-1] != end and len(found[0]) < most]
    return finished


def ragged(rows: list[list[int]], side: str, pad: int = 1) -> tuple[Tensor, Tensor]:
    """ids and attention_mask."""
    width = max(map(len, rows))
    gaps = [width - len(row) for row in rows]
    left = side == "left"
    ids = [[pad] * gap + row if left else row + [pad] * gap for row, gap in zip(rows, gaps, strict=True)]
    mask = [[0] * gap + [1] * len(r) if left else [1] * len(r) + [0] * gap for r, gap in zip(rows, gaps, strict=True)]
    return torch.tensor(ids), torch.tensor(mask)
