"""Which optimizer moves which parameter."""

import math
from dataclasses import dataclass

from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from clearhead.model.attention import Attention
from clearhead.model.feed_forward import FeedForward


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Peaks of the learning rates, and decoupled weight decay (on matrices and tables, never on vectors)."""

    adamw: float = 1e-3
    muon: float | None = None  # for the matrices of attention and feed-forward; None: AdamW moves them too
    decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)


def optimizers(model: nn.Module, rates: Rates) -> list[Optimizer]:
    """AdamW (Loshchilov & Hutter 2019) for everything, or Muon (Jordan 2024) for the matrices inside the layers.

    Each parameter group remembers the peak of its learning rate as `peak`.
    """
    hidden = {id(p) for m in model.modules() if isinstance(m, Attention | FeedForward) for p in m.parameters()}
    everything = list(model.parameters())
    matrices = [p for p in everything if id(p) in hidden and p.dim() == 2 and rates.muon is not None]
    moved = {id(p) for p in matrices}
    rest = [p for p in everything if id(p) not in moved]
    groups = [
        {"params": [p for p in rest if p.dim() >= 2], "weight_decay": rates.decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    fused = all(p.device.type in ("cpu", "cuda") for p in rest)
    found: list[Optimizer] = [AdamW(groups, lr=rates.adamw, betas=rates.betas, eps=1e-9, fused=fused)]
    if matrices and rates.muon is not None:
        found.append(Muon(matrices, lr=rates.muon, weight_decay=rates.decay))
    for group in (g for optimizer in found for g in optimizer.param_groups):
        group["peak"] = group["lr"]
    return found


def set_rates(found: list[Optimizer], share: float) -> None:
    """Every group's learning rate to this share of its peak."""
    for group in (g for optimizer in found for g in optimizer.param_groups):
        group["lr"] = group["peak"] * share


def clip(model: nn.Module, limit: float, step: int) -> float:
    """Scale all gradients so that their joint norm is at most `limit`; the norm before.

    Raises ValueError if it is not finite, naming the step and the first parameter.
    """
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    norm = nn.utils.get_total_norm(gradients.values())
    if not math.isfinite(norm):  # looked at before the scaling, which would spread it to all
        bad = next(name for name, gradient in gradients.items() if not bool(gradient.isfinite().all()))
        raise ValueError(f"step {step}: the gradient is {float(norm)}, first in {bad}; lower the learning rate")
    nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return float(norm)
