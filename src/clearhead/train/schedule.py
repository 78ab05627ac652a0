"""The learning rate at each step, as a share of its peak. Steps count from 1; no warm-up may divide by zero."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def inverse_sqrt(warmup: int) -> Schedule:
    """Up in a line for `warmup` steps, then down with 1/sqrt(step) (Vaswani et al. 2017, section 5.3)."""
    warmup = max(warmup, 1)
    return lambda step: min(step / warmup, math.sqrt(warmup / step))


def paper_peak(dim: int, warmup: int) -> float:
    """The peak at which `inverse_sqrt` is the paper's equation 3: dim^-0.5 * warmup^-0.5."""
    return (dim * max(warmup, 1)) ** -0.5


def cosine(warmup: int, steps: int, floor: float = 0.02) -> Schedule:
    """Up in a line for `warmup` steps, then down half a cosine to `floor` of the peak at the last step."""

    def share(step: int) -> float:
        if step <= warmup:
            return step / warmup
        done = min((step - warmup) / max(steps - warmup, 1), 1.0)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return share


def wsd(warmup: int, steps: int, decay: int, floor: float = 0.0) -> Schedule:
    """Warm up in a line, stay at the peak, and come down to `floor` in the last `decay` steps (Hu et al. 2024).

    Down as 1 minus a square root, which ended lowest of the shapes compared by Hägele et al. 2024.
    """

    def share(step: int) -> float:
        left = min(max(steps - step, 0), decay)
        down = floor + (1 - floor) * (1 - math.sqrt(1 - left / max(decay, 1))) if left < decay else 1.0
        return min(step / max(warmup, 1), 1.0, down)

    return share
