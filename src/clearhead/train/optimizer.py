"""Which optimizer moves which parameter."""

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
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
    frozen: tuple[str, ...] = ()  # patterns of parameters that stay as they are, such as encoder.*


def freeze(model: nn.Module, patterns: Iterable[str]) -> None:
    """Parameters that fit a pattern are not trained. ValueError for a pattern that none fits, and if all are frozen."""
    names = dict(model.named_parameters())
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.0)[0]
            raise ValueError(f"no parameter is called {pattern}; there is for instance {near}")
        for name in found:
            names[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in names.values()):
        raise ValueError(f"all {len(names)} parameters are frozen; leave some to be trained")


def optimizers(model: nn.Module, rates: Rates) -> list[Optimizer]:
    """AdamW (Loshchilov & Hutter 2019) for everything, or Muon (Jordan 2024) for the matrices inside the layers.

    Frozen parameters are left out. Each parameter group remembers the peak of its learning rate as `peak`.
    """
    hidden = {id(p) for m in model.modules() if isinstance(m, Attention | FeedForward) for p in m.parameters()}
    everything = [p for p in model.parameters() if p.requires_grad]
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


def moments(found: list[Optimizer]) -> int:
    """The bytes that the optimizers' moments take: AdamW has two for each parameter, Muon one."""
    sizes = {id(one): (2 if isinstance(one, AdamW) else 1) for one in found}
    groups = ((sizes[id(one)], group["params"]) for one in found for group in one.param_groups)
    return sum(times * sum(p.numel() * p.element_size() for p in parameters) for times, parameters in groups)


def set_rates(found: list[Optimizer], share: float) -> None:
    """Every group's learning rate to this share of its peak."""
    for group in (g for optimizer in found for g in optimizer.param_groups):
        group["lr"] = group["peak"] * share


def clip(model: nn.Module, limit: float, step: int) -> float:
    """Scale all gradients so that their joint norm is at most `limit`; the norm before.

    Raises ValueError if it is not finite, naming the step and the first parameter.
    """
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    total = nn.utils.get_total_norm(gradients.values())
    norm = float(total.full_tensor() if isinstance(total, DTensor) else total)
    if not math.isfinite(norm):  # looked at before the scaling, which would spread it to all
        bad = (name for name, gradient in gradients.items() if not bool(_own(gradient).isfinite().all()))
        place = next(bad, "what another process holds")
        raise ValueError(f"step {step}: the gradient is {norm}, first in {place}; lower the learning rate")
    if norm > limit:
        torch._foreach_mul_([_own(gradient) for gradient in gradients.values()], limit / (norm + 1e-6))  # pyright: ignore
    return norm


def _own(tensor: Tensor) -> Tensor:
    """What this process holds of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
