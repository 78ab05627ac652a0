"""Whole heads left out at random while training, so that no head can leave its work to the others."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeVar, cast

import torch
from torch import Tensor

from clearhead.tap import Tap

T = TypeVar("T")


class DropHeads(Tap):
    """Zero each head's output with some probability, per sample, and scale up the rest (DropHead, Zhou et al. 2020).

    Given as a training step's tap. shares: probability by pattern of the attention's address, such as
    {"decoder.*.cross": 0.5}. Raises ValueError for a share outside [0, 1).
    """

    def __init__(self, shares: Mapping[str, float], address: str = ""):
        for share in shares.values():
            if not 0.0 <= share < 1.0:
                raise ValueError(f"share is {share}; it must be in [0, 1)")
        self.shares, self.address = shares, address

    def at(self, name: str) -> Tap:
        return DropHeads(self.shares, f"{self.address}.{name}".removeprefix("."))

    def __call__(self, site: str, value: T) -> T:
        if site != "heads" or not isinstance(value, Tensor):
            return value
        for pattern, share in self.shares.items():
            if fnmatchcase(self.address, pattern):
                keep = torch.rand(*value.shape[:2], 1, 1, device=value.device) >= share  # [B H 1 1]
                return cast(T, value * keep / (1.0 - share))
        return value
