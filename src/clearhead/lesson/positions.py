"""Topic `positions`: the table of sines and cosines, and what it is good for. NumPy only."""

import numpy as np

from clearhead.lesson.page import Page, Step
from clearhead.reference import Array, sinusoidal_positions

COUNT, DIM = 5, 8
FAR = 10_000  # positions over which the closest two rows are looked for
DRAWN = 24  # positions in the drawing


def page() -> Page:
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5) and their properties, measured."""
    table = sinusoidal_positions(COUNT, DIM)
    rows = tuple(str(i) for i in range(COUNT))
    rates = 10000.0 ** -(2 * np.arange(DIM // 2) / DIM)
    return Page(
        topic="positions",
        title="Positions: waves that tell a token where it stands",
        steps=(
            Step(
                name="positional_encoding_5x8",
                shape="T D",
                formula="sin or cos of position · rate",
                words="A row for each position, added to the token's embedding before attention.",
                value=table,
                labels=(rows, tuple(f"{'cos' if i % 2 else 'sin'} {i // 2}" for i in range(DIM))),
                note="Even columns are sines, odd ones cosines. The alternative is a table of learned rows.",
            ),
            Step(
                name="rates",
                shape="R",
                formula=f"1 / 10000^(2i / {DIM}) for pair i",
                words="A sine and its cosine share a rate; from pair to pair the waves get slower.",
                value={
                    "pair": list(range(DIM // 2)),
                    "rate": rates.tolist(),
                    "positions_per_wave": (2 * np.pi / rates).tolist(),
                },
            ),
            Step(
                name="waves",
                words=f"The columns along positions 0 to {DRAWN - 1}: a low bar is -1, a high bar 1.",
                value=_draw(sinusoidal_positions(DRAWN, DIM)),
            ),
            *_properties(table, rows),
        ),
    )


def _properties(table: Array, rows: tuple[str, ...]) -> tuple[Step, ...]:
    far = sinusoidal_positions(FAR, DIM)
    # Every row has the same length, so by the last property the distance of two rows depends on their shift alone.
    smallest = [float(np.linalg.norm(t[1:] - t[0], axis=-1).min()) for t in (table, far)]
    starts, shift = (0, 1, 100, 9_000), 3
    return (
        Step(
            name="pair_lengths",
            shape="T R",
            formula="sin² + cos²",
            words="Each pair is a point on a circle: the squares sum to 1 at every position.",
            value=table[:, ::2] ** 2 + table[:, 1::2] ** 2,
            labels=(rows, tuple(f"pair {i}" for i in range(DIM // 2))),
        ),
        Step(
            name="closest_rows",
            words="No two rows are alike: the smallest distance between any two.",
            value={"positions": [COUNT, FAR], "smallest_distance": smallest},
        ),
        Step(
            name="dot_products",
            shape="T T",
            formula="table tableᵀ",
            words="Rows compared: the number depends only on how far apart they stand.",
            value=table @ table.T,
            labels=(rows, rows),
            note="Along each diagonal all numbers are equal, and they fall as the distance grows from 0 to 3.",
        ),
        Step(
            name="shifted",
            words=f"The same far away: a row and the row {shift} positions later.",
            value={
                "first": list(starts),
                "second": [start + shift for start in starts],
                "dot_product": [float(far[start] @ far[start + shift]) for start in starts],
            },
        ),
    )


def _draw(table: Array) -> str:
    """One line per column of the table [N D], one bar per position."""
    bars = "▁▂▃▄▅▆▇█"
    level = ((table.T + 1) / 2 * (len(bars) - 1)).round().astype(int)
    names = [f"{'cos' if i % 2 else 'sin'} {i // 2}" for i in range(table.shape[1])]
    return "\n".join(f"{name} " + "".join(bars[i] for i in row) for name, row in zip(names, level, strict=True))
