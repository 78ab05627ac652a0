"""One vector for a text out of those of its tokens."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def pool(
    x: Float[Tensor, "B T D"], kind: Literal["first", "last", "mean", "max"], keep: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B D"]:
    """The first or the last vector, or the mean or the largest number of each feature, among those that are kept.

    keep: False = as if it were not there. A text of which nothing is kept gives zeros.
    """
    if keep is None:
        keep = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    if kind == "mean":
        wide = torch.promote_types(x.dtype, torch.float32)
        total = x.masked_fill(~keep[..., None], 0.0).sum(1, dtype=wide)
        return (total / keep.sum(1, keepdim=True).clamp(min=1)).to(x.dtype)
    if kind == "max":
        found = x.masked_fill(~keep[..., None], -torch.inf).amax(1)
    else:
        rows, columns = (torch.arange(size, device=x.device) for size in keep.shape)
        # Of equal numbers argmax gives the first.
        found = x[rows, (keep * (columns + 1) if kind == "last" else keep.long()).argmax(1)]
    return found.masked_fill(~keep.any(1, keepdim=True), 0.0)
