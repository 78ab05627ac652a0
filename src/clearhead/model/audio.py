"""What an encoder of sound has in place of a table of tokens."""

import torch.nn.functional as F
from torch import Tensor, nn

from clearhead import config


class Convolutions(nn.Module):
    """Frames [B, bins, frames] -> [B, frames / 2 rounded up, D] (Radford et al. 2022, section 2.2)."""

    def __init__(self, form: config.Audio, dim: int):
        super().__init__()
        self.first = nn.Conv1d(form.bins, dim, kernel_size=3, padding=1)
        self.second = nn.Conv1d(dim, dim, kernel_size=3, stride=2, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        x = F.gelu(self.first(frames.to(self.first.weight.dtype)))
        return F.gelu(self.second(x)).transpose(1, 2)
