"""What the tests of figures share: weights and tables to draw, and what a figure shows."""

from typing import Any

import torch
from matplotlib.text import Text

from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.lens.rows import Weights
from clearhead.lens.table import Table


def weights(queries: int, keys: int, heads: int = 3, causal: bool = False) -> Weights:
    visible = Visible.last(queries, keys, causal=causal)
    return Weights(torch.randn(1, heads, queries, 5), torch.randn(1, heads, keys, 5), Scoring(visible, 0.8))


def cells(figure: Any, panel: int = 0) -> Any:
    """The numbers that one map draws, hidden ones masked."""
    (mesh,) = figure.axes[panel].collections
    return mesh.get_array()


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def table(*sizes: int, signed: bool = False) -> Table:
    axes = {f"axis{i}": [f"{'xyz'[i]}{j}" for j in range(size)] for i, size in enumerate(sizes)}
    values = torch.rand(sizes)
    return Table("a table", axes, values - 0.5 if signed else values, "share")
