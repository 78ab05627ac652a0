"""A norm: its gain (and shift), and the formula of its kind."""

import torch
from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.norm import layer_norm, rms_norm, rms_plus_one_norm


class Norm(nn.Module):
    """x [..., width] -> [..., width]."""

    def __init__(self, form: config.Norm, width: int):
        super().__init__()
        self.form = form
        gain = torch.zeros(width) if form.kind == "rms_plus_one" else torch.ones(width)
        self.gain = nn.Parameter(gain)
        self.shift = nn.Parameter(torch.zeros(width)) if form.kind == "layer" else None

    def forward(self, x: Tensor) -> Tensor:
        if self.form.kind in ("layer", "layer_gain"):
            return layer_norm(x, self.gain, self.shift, self.form.eps)
        formula = rms_norm if self.form.kind == "rms" else rms_plus_one_norm
        return formula(x, self.gain, self.form.eps)
