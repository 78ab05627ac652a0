"""The feed-forward branch: two or three linear maps."""

from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.feed_forward import feed_forward
from clearhead.tap import SILENT, Tap


class FeedForward(nn.Module):
    """x [B, T, D] -> [B, T, D], each token alone."""

    def __init__(self, form: config.FeedForward, dim: int):
        super().__init__()
        self.form = form
        self.up = nn.Linear(dim, form.dim, bias=form.bias)
        self.gate = nn.Linear(dim, form.dim, bias=form.bias) if form.gated else None
        self.down = nn.Linear(form.dim, dim, bias=form.bias)

    def forward(self, x: Tensor, tap: Tap = SILENT) -> Tensor:
        return feed_forward(x, self.up, self.down, self.gate, self.form.activation, tap)
