"""Topic `torch`: the worked example through the PyTorch formula, and the formula beside PyTorch's own."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.formulas.attention import attention, attention_weights
from clearhead.lesson.example import TOKENS, example
from clearhead.lesson.page import Page, Step
from clearhead.lesson.threads import one_thread

SHAPES = ((2, 3, 8), (2, 5, 16))  # [B T E]


@one_thread()
def page() -> Page:
    """float32 against float64, and weights @ v against F.scaled_dot_product_attention."""
    given = example()
    q, k, v = (torch.tensor(m, dtype=torch.float32)[None, None] for m in (given.Q, given.K, given.V))  # [1 1 T E]
    weights, output = attention_weights(q, k)[0, 0], attention(q, k, v)[0, 0]
    truth = torch.tensor(given.attend().output)
    return Page(
        topic="torch",
        title="The same in PyTorch, in float32",
        steps=(
            Step(
                name="weights_float32",
                shape="Q K",
                formula="attention_weights(Q, K)",
                words="The weights of the worked example from the PyTorch formula.",
                value=weights.numpy(),
                labels=(TOKENS, TOKENS),
            ),
            Step(
                name="output_float32",
                shape="Q E",
                formula="attention(Q, K, V)",
                words="Its output.",
                value=output.numpy(),
                labels=(TOKENS,),
            ),
            Step(
                name="float32_minus_float64",
                words="Largest difference from NumPy in float64: float32 keeps about 7 digits.",
                value=_gap(output.double(), truth),
            ),
            *_beside_builtin(),
        ),
    )


def _beside_builtin() -> tuple[Step, ...]:
    rows = [_compare(shape) for shape in SHAPES]
    wrong = [_mistakes(shape) for shape in SHAPES]
    return (
        Step(
            name="beside_builtin",
            words="Random Q, K, V [B T E]: largest differences from PyTorch's own function.",
            value={key: [row[key] for row in rows] for key in rows[0]},
            note=(
                "open: softmax(Q Kᵀ / √E) V written out. fused: the way a model takes, which calls "
                "F.scaled_dot_product_attention itself and never writes the weights down."
            ),
        ),
        Step(
            name="mistakes",
            words="If yours differs, it is usually by one of these; so large are they.",
            value={key: [row[key] for row in wrong] for key in wrong[0]},
        ),
    )


def _drawn(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v [B 1 T E]: one head."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn((3, *shape), generator=generator).unsqueeze(2)
    return q, k, v


def _compare(shape: tuple[int, ...]) -> dict[str, Any]:
    q, k, v = _drawn(shape)
    weights = attention_weights(q, k)
    builtin = F.scaled_dot_product_attention(q, k, v)
    return {
        "Q_K_V": str(shape),
        "output": str(tuple((weights @ v).squeeze(1).shape)),
        "weights": str(tuple(weights.squeeze(1).shape)),
        "row_sums_minus_1": _gap(weights.sum(-1), torch.ones(())),
        "open": _gap(weights @ v, builtin),
        "fused": _gap(attention(q, k, v), builtin),
        "allclose": torch.allclose(weights @ v, builtin, atol=1e-6),
    }


def _mistakes(shape: tuple[int, ...]) -> dict[str, Any]:
    q, k, v = _drawn(shape)
    builtin = F.scaled_dot_product_attention(q, k, v)
    over_queries = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-2)
    return {
        "Q_K_V": str(shape),
        "no_scale": _gap(attention(q, k, v, scale=1.0), builtin),
        "softmax_over_queries": _gap(over_queries @ v, builtin),
    }


def _gap(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()
