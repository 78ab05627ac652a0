"""The worked example: three tokens, four numbers each, three drawn matrices, and attention over them in float64."""

from typing import NamedTuple

import numpy as np

from clearhead import reference
from clearhead.reference import Array, Attended

TOKENS = ("the", "cat", "sat")
DRAWN = "numpy default_rng(0); normal(0, 1, (4, 4)) rounded to 1 decimal, drawn in the order Wq, Wk, Wv"


class Example(NamedTuple):
    """From embeddings to queries, keys and values."""

    X: Array  # [T D]
    Wq: Array  # [D E]
    Wk: Array  # [D E]
    Wv: Array  # [D E]
    Q: Array  # [Q E]
    K: Array  # [K E]
    V: Array  # [K E]

    def attend(self, causal: bool = False) -> Attended:
        """Attention of the three tokens over each other, or over those up to themselves."""
        mask = reference.causal_mask(len(self.Q), len(self.K)) if causal else None
        return reference.attention(self.Q, self.K, self.V, mask)


def example() -> Example:
    """The same numbers on every machine."""
    X = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    generator = np.random.default_rng(0)
    Wq, Wk, Wv = (generator.normal(0, 1, (4, 4)).round(1) for _ in range(3))
    return Example(X, Wq, Wk, Wv, X @ Wq, X @ Wk, X @ Wv)
