"""Topic `heads`: several attentions side by side, each on its own slice of the width."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clearhead.formulas.attention import attention, attention_weights
from clearhead.lesson.example import TOKENS
from clearhead.lesson.page import Page, Step
from clearhead.lesson.threads import one_thread

DIM, HEADS = 16, 4


class Weights(NamedTuple):
    """Four matrices [D D], used as x @ w; each head owns D / H neighbouring columns of q, k and v."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor


class Attended(NamedTuple):
    """Multi-head attention with what lies on the way."""

    q: Tensor  # [B H T E]
    weights: Tensor  # [B H T T]
    heads: Tensor  # [B H T E]
    joined: Tensor  # [B T D]
    output: Tensor  # [B T D]


def draw(tokens: int, dim: int = DIM) -> tuple[Tensor, Weights]:
    """Embeddings [1 T D] of N(0, 1) numbers and weights of variance 1 / D, the same every time."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, tokens, dim, generator=generator)
    return x, Weights(*(torch.randn(4, dim, dim, generator=generator) / dim**0.5))


def multi_head(x: Tensor, w: Weights, heads: int = HEADS) -> Attended:
    """Split, attend, concatenate, mix (Vaswani et al. 2017, section 3.2.2). x [B T D]."""
    q, k, v = ((x @ m).unflatten(-1, (heads, -1)).transpose(1, 2) for m in (w.q, w.k, w.v))  # [B H T E]
    out = attention(q, k, v)
    joined = out.transpose(1, 2).flatten(2)  # [B T D]
    return Attended(q, attention_weights(q, k), out, joined, joined @ w.o)


@one_thread()
def page() -> Page:
    """Width 16, 4 heads, 3 tokens; equality with nn.MultiheadAttention given the same weights."""
    x, w = draw(len(TOKENS))
    seen = multi_head(x, w)
    head_names = tuple(f"head {i}" for i in range(HEADS))
    return Page(
        topic="heads",
        title=f"Heads: {HEADS} attentions side by side in a model of width {DIM}",
        steps=(
            Step(
                name="shapes",
                words="Split the width into heads, attend in each, concatenate, mix with Wo.",
                value=_shapes(x, w, seen),
                note="What goes in comes out in the same shape, so that layers can be stacked.",
            ),
            Step(
                name="weights",
                shape="H Q K",
                formula="softmax(Q Kᵀ / √E) in each head",
                words="Each head has its own queries and keys, so each looks elsewhere.",
                value=seen.weights[0].numpy(),
                labels=(head_names, TOKENS, TOKENS),
            ),
            Step(
                name="heads",
                shape="H Q E",
                formula="weights V in each head",
                words=f"Each head writes {DIM // HEADS} numbers per token.",
                value=seen.heads[0].numpy(),
                labels=(head_names, TOKENS),
            ),
            Step(
                name="output",
                shape="T D",
                formula="concat(heads) Wo",
                words="The heads side by side, mixed by one last matrix.",
                value=seen.output[0].numpy(),
                labels=(TOKENS,),
            ),
            Step(
                name="beside_builtin",
                words="nn.MultiheadAttention given the same weights: the largest differences.",
                value=_beside_builtin(x, w, seen),
            ),
        ),
    )


def _shapes(x: Tensor, w: Weights, seen: Attended) -> dict[str, list[str]]:
    rows = (
        ("X", "T D", x),
        ("Wq, Wk, Wv", "D D", w.q),
        ("split", "H T E", seen.q),
        ("weights", "H Q K", seen.weights),
        ("heads", "H Q E", seen.heads),
        ("concat", "T D", seen.joined),
        ("Wo", "D D", w.o),
        ("output", "T D", seen.output),
    )
    return {
        "what": [name for name, _, _ in rows],
        "letters": [letters for _, letters, _ in rows],
        "shape": [" ".join(map(str, t.shape[-len(letters.split()) :])) for _, letters, t in rows],
    }


def _beside_builtin(x: Tensor, w: Weights, seen: Attended) -> dict[str, list[Any]]:
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # its initial draw must not move the caller's generator
        builtin = nn.MultiheadAttention(DIM, HEADS, bias=False, batch_first=True)
        builtin.in_proj_weight.copy_(torch.cat([w.q, w.k, w.v], dim=1).T)
        builtin.out_proj.weight.copy_(w.o.T)
        output, weights = builtin(x, x, x, average_attn_weights=False)
    return {
        "what": ["output", "weights"],
        "difference": [(a - b).abs().max().item() for a, b in ((output, seen.output), (weights, seen.weights))],
    }
