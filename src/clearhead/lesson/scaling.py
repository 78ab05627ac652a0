"""Topic `scaling`: why the scores are divided by sqrt(E), measured. NumPy only."""

from typing import Any

import numpy as np

from clearhead.lesson.page import Page, Step
from clearhead.reference import Array, softmax

WIDTHS = (4, 16, 64, 256, 1024)
QUERIES, KEYS = 1000, 16


def page() -> Page:
    """Scores, weights and slopes for queries and keys of N(0, 1) numbers (Vaswani et al. 2017, section 3.2.1)."""
    plain, scaled = _measured(scale=False), _measured(scale=True)
    top, narrow, wide = plain["largest_weight"][-1], plain["slope"][0], plain["slope"][-1]
    return Page(
        topic="scaling",
        title="Scaling: why the scores are divided by √E",
        steps=(
            Step(
                name="unscaled",
                formula="softmax(Q Kᵀ)",
                words=f"{QUERIES} queries, {KEYS} keys of N(0, 1) numbers: the scores spread like √E.",
                value=plain,
                note=(
                    f"At width {WIDTHS[-1]} a query gives {100 * top:.0f} % of its attention to one key, by chance. "
                    f"The slope fell from {narrow:.3f} to {wide:.1e}: too flat to learn from."
                ),
            ),
            Step(
                name="scaled",
                formula="softmax(Q Kᵀ / √E)",
                words="Divided by √E the scores spread by 1 at every width; the weights stay soft.",
                value=scaled,
                note=f"The slope stays near {np.mean(scaled['slope']):.2f}.",
            ),
            Step(
                name="columns",
                words="What was measured: means over the queries, of the slope the median.",
                value={
                    "name": ["std_of_scores", "largest_weight", "entropy_bits", "slope"],
                    "meaning": [
                        "their spread",
                        "share of the top key",
                        f"0: one key, {np.log2(KEYS):g}: all alike",
                        "|d weights / d scores|",
                    ],
                },
            ),
        ),
    )


def _measured(scale: bool) -> dict[str, list[Any]]:
    generator = np.random.default_rng(0)
    found: dict[str, list[Any]] = {"E": [], "std_of_scores": [], "largest_weight": [], "entropy_bits": [], "slope": []}
    for width in WIDTHS:
        scores = generator.standard_normal((QUERIES, width)) @ generator.standard_normal((KEYS, width)).T
        scores = scores / np.sqrt(width) if scale else scores
        weights = softmax(scores)
        found["E"].append(width)
        found["std_of_scores"].append(float(scores.std()))
        found["largest_weight"].append(float(weights.max(axis=-1).mean()))
        found["entropy_bits"].append(float(_entropy(weights).mean()))
        found["slope"].append(float(np.median(slope(weights))))
    return found


def _entropy(weights: Array) -> Array:
    """[Q K] -> [Q], in bits."""
    return -(weights * np.log2(np.where(weights > 0, weights, 1.0))).sum(axis=-1)


def slope(weights: Array) -> Array:
    """[Q K] -> [Q]: how far the weights of a row move when its scores move.

    The Frobenius norm of the softmax's derivative, d w_i / d s_j = w_i (1 if i = j else 0) - w_i w_j.
    """
    derivative = weights[:, :, None] * (np.eye(weights.shape[-1]) - weights[:, None, :])
    return np.sqrt((derivative**2).sum(axis=(-1, -2)))
