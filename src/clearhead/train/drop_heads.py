"""Whole heads left out at random while training, so that no head can leave its work to the others."""

from typing import TypeVar, cast

import torch
from torch import Tensor

from clearhead.tap import Tap

T = TypeVar("T")


class DropHeads(Tap):
    """Zero each head's output with probability `share`, per sample, and scale up the rest (DropHead, Zhou et al. 2020).

    Given as a training step's tap; only attentions called `part` ("self" or "cross") are touched.
    """

    def __init__(self, share: float, part: str, inside: bool = False):
        if not 0.0 <= share < 1.0:
            raise ValueError(f"share is {share}; it must be in [0, 1)")
        self.share, self.part, self.inside = share, part, inside

    def at(self, name: str) -> Tap:
        return DropHeads(self.share, self.part, name == self.part)

    def __call__(self, site: str, value: T) -> T:
        if not self.inside or site != "heads" or not isinstance(value, Tensor):
            return value
        keep = torch.rand(*value.shape[:2], 1, 1, device=value.device) >= self.share  # [B H 1 1]
        return cast(T, value * keep / (1.0 - self.share))
