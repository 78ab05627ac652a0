"""Topic `order`: attention alone cannot tell the order of its tokens; positions can, if they are loud enough."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.formulas.position import sinusoidal_positions
from clearhead.lesson.example import TOKENS
from clearhead.lesson.heads import DIM, Weights, draw, multi_head
from clearhead.lesson.page import Page, Step
from clearhead.lesson.threads import one_thread

ORDER = (2, 0, 1)
WIDE, LONG = 64, 16  # width and tokens for the measure of loudness
TRAINED = (
    "In training it decides: after 400 steps of AdamW the demo's translator had 0.3 % of unseen numbers right with the "
    "factor on N(0, 1) embeddings, and 95.7 % without it (benchmarks/drowned.py)."
)


@one_thread()
def page() -> Page:
    """Permute, attend, un-permute, compare: without positions, with them, and with positions that are drowned."""
    x, w = draw(len(TOKENS))
    table = sinusoidal_positions(torch.arange(len(TOKENS)), DIM)
    plain, moved = multi_head(x, w).output, _shuffled(x, torch.zeros_like(table), w, ORDER)
    with_positions, moved_with = multi_head(x + table, w).output, _shuffled(x, table, w, ORDER)
    return Page(
        topic="order",
        title="Order: attention sees a bag of tokens until positions are added",
        steps=(
            Step(
                name="output",
                shape="T D",
                words="Multi-head attention over three tokens; the first four numbers of each.",
                value=plain[0, :, :4].numpy(),
                labels=(TOKENS,),
            ),
            Step(
                name="output_of_shuffled",
                shape="T D",
                words=f"The tokens shuffled to {ORDER}, attended to, and put back into their order.",
                value=moved[0, :, :4].numpy(),
                labels=(TOKENS,),
            ),
            Step(
                name="difference",
                words="The largest difference in float32.",
                value={
                    "tokens": ["without positions", "with positions added"],
                    "difference": [_gap(plain, moved), _gap(with_positions, moved_with)],
                },
                note="Without positions only rounding is left: each token gets the same answer wherever it stands.",
            ),
            _drowned(),
        ),
    )


def _shuffled(x: Tensor, table: Tensor, w: Weights, order: tuple[int, ...]) -> Tensor:
    """The output [B T D] for the tokens in another order, put back into the old one. The positions stay in place."""
    there = torch.tensor(order)
    return multi_head(x[:, there] + table, w).output[:, there.argsort()]


def _drowned() -> Step:
    factor = WIDE**0.5
    rows = [_loudness(1.0, 1.0), _loudness(1.0, factor), _loudness(1 / factor, factor)]
    quieter, weaker = rows[0]["ratio"] / rows[1]["ratio"], rows[0]["change"] / rows[1]["change"]
    return Step(
        name="drowned_positions",
        words=f"Width {WIDE}: positions beside embeddings, and what reversing {LONG} tokens changes.",
        value={key: [row[key] for row in rows] for key in rows[0]},
        note=(
            f"The factor √D = {factor:g} belongs to embeddings of deviation 1/√D. On N(0, 1) embeddings it makes "
            f"positions {quieter:.3g} times too quiet: order changes the output {weaker:.2g} times less. {TRAINED}"
        ),
    )


def _loudness(deviation: float, factor: float) -> dict[str, Any]:
    """Embeddings of this deviation times the factor, plus positions, normed and attended to as in a layer."""
    x, w = draw(LONG, WIDE)
    x = x * deviation * factor
    table = sinusoidal_positions(torch.arange(LONG), WIDE)
    backwards = tuple(reversed(range(LONG)))

    def attend(order: tuple[int, ...]) -> Tensor:
        there = torch.tensor(order)
        return multi_head(F.layer_norm(x[:, there] + table, (WIDE,)), w).output[:, there.argsort()]

    straight, turned = attend(tuple(range(LONG))), attend(backwards)
    return {
        "embedding": f"{'√D ' if factor != 1.0 else ''}N(0, {'1' if deviation == 1.0 else '1/D'})",
        "rms_embedding": _rms(x),
        "rms_position": _rms(table),
        "ratio": _rms(table) / _rms(x),
        "change": _rms(straight - turned) / _rms(straight),
    }


def _rms(x: Tensor) -> float:
    """Root of the mean square."""
    return x.square().mean().sqrt().item()


def _gap(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()
