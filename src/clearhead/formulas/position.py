"""Where a token stands: sinusoids that are added, rotations of queries and keys, biases by distance.

Learned tables are parameters and live in the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def sinusoidal_positions(
    positions: Int[Tensor, "*T"],
    dim: int,
    kind: Literal["interleaved", "halves", "halves_inclusive"] = "interleaved",
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "*T {dim}"]:
    """Sines and cosines of position times rate (Vaswani et al. 2017, section 3.5). Any width, odd ones too.

    interleaved: sine on even, cosine on odd columns, rate 10000^(-2i/dim), as in the paper. halves: all sines, then
    all cosines, the same rates. halves_inclusive: halves whose rates end exactly at 1/10000 (tensor2tensor's table);
    an odd last column is 0. dtype: torch's default one if None; computed in float64.
    """
    wide = torch.float32 if positions.device.type == "mps" else torch.float64
    half = dim // 2 if kind == "halves_inclusive" else (dim + 1) // 2
    last = max(half - 1, 1) if kind == "halves_inclusive" else dim / 2
    rate = torch.exp(torch.arange(half, device=positions.device, dtype=wide) * (-math.log(10000.0) / last))
    angle = positions.to(wide).unsqueeze(-1) * rate  # [*T half]
    sine, cosine = angle.sin(), angle.cos()
    if kind == "interleaved":
        table = torch.stack([sine, cosine], dim=-1).flatten(-2)[..., :dim]
    else:
        table = torch.cat([sine, cosine[..., : dim - half]], dim=-1)
        table = torch.nn.functional.pad(table, (0, dim - table.shape[-1]))
    return table.to(torch.get_default_dtype() if dtype is None else dtype)


def rotary_rates(dim: int, theta: float = 10000.0, device: torch.device | None = None) -> Float[Tensor, "R"]:
    """Radians per position of each of the dim / 2 pairs: theta^(-2i/dim) (Su et al. 2021, section 3.2.2).

    In float32, as published checkpoints were trained: a wider type would turn long contexts by other angles.
    """
    return 1.0 / _growth(dim, theta, device)


def _growth(dim: int, theta: float, device: torch.device | None) -> Float[Tensor, "R"]:
    """theta^(2i/dim)."""
    return theta ** (torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)


def linear_rates(rates: Float[Tensor, "R"], factor: float) -> Float[Tensor, "R"]:
    """Every rate divided by factor: positions are squeezed into the range that was trained."""
    return rates / factor


def banded_rates(rates: Float[Tensor, "R"], factor: float, low: float, high: float, length: int) -> Float[Tensor, "R"]:
    """Divided by factor where fewer than `low` turns fit into `length`, kept above `high` turns, blended between."""
    turns = length * rates / (2 * math.pi)
    blend = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - blend) * rates / factor + blend * rates


def yarn_rates(
    rates: Float[Tensor, "R"], theta: float, factor: float, length: int, fast: float, slow: float, truncate: bool
) -> Float[Tensor, "R"]:
    """Divided by factor where a pair turns less than `slow` times in `length` positions, kept where more than `fast`.

    Between, blended linearly in the index of the pair (Peng et al. 2023, section 3.2).
    """
    dim = 2 * rates.shape[0]

    def pair_that_turns(turns: float) -> float:
        return dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair_that_turns(fast), pair_that_turns(slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    index = torch.arange(dim // 2, device=rates.device, dtype=torch.float32)
    squeezed = ((index - first) / max(last - first, 0.001)).clamp(0.0, 1.0)
    return rates / factor * squeezed + rates * (1 - squeezed)


def yarn_factor(factor: float) -> float:
    """What cosine and sine are multiplied by, so that scores keep their temperature: 0.1 ln(factor) + 1."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1.0 else 1.0


def longrope_rates(
    dim: int, theta: float, short: Sequence[float], long: Sequence[float], length: int, tokens: Int[Tensor, "*T"]
) -> Float[Tensor, "*T R"]:
    """Radians per position of each of the dim / 2 pairs, theta^(-2i/dim) over a factor of its own (Ding et al. 2024).

    `tokens`: how long the text is that each token belongs to. The factor is short[i] in texts of up to `length`
    tokens and long[i] in longer ones, so that one more token may turn every token of the text by other angles.
    """
    growth = _growth(dim, theta, tokens.device)
    near, far = (torch.tensor(list(factors), dtype=growth.dtype, device=growth.device) for factors in (short, long))
    return torch.where(tokens.unsqueeze(-1) > length, 1.0 / (far * growth), 1.0 / (near * growth))


def longrope_factor(factor: float, length: int) -> float:
    """What cosine and sine are multiplied by where `length` grows by `factor`: sqrt(1 + ln(factor) / ln(length))."""
    return math.sqrt(1.0 + math.log(factor) / math.log(length)) if factor > 1.0 else 1.0


def rotate(
    x: Float[Tensor, "B H T E"],
    cos: Float[Tensor, "*B T R"],
    sin: Float[Tensor, "*B T R"],
    layout: Literal["half", "pairs"] = "half",
) -> Float[Tensor, "B H T E"]:
    """Turn the first 2R numbers of every head, two by two, by their angle; the rest stays.

    half:   number i turns with number i + R      pairs:  number 2i turns with number 2i + 1
    """
    turned = 2 * cos.shape[-1]
    cos, sin = (t.to(x.dtype).unsqueeze(-3) for t in (cos, sin))  # [B 1 T R] or [1 T R]
    head, rest = x[..., :turned], x[..., turned:]
    a, b = head.chunk(2, dim=-1) if layout == "half" else (head[..., ::2], head[..., 1::2])
    pair = (a * cos - b * sin, b * cos + a * sin)
    head = torch.cat(pair, dim=-1) if layout == "half" else torch.stack(pair, dim=-1).flatten(-2)
    return torch.cat([head, rest], dim=-1) if rest.shape[-1] else head


def relative_buckets(
    q_positions: Int[Tensor, "*#B Q"],
    k_positions: Int[Tensor, "*#B K"],
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Int[Tensor, "*#B Q K"]:
    """Which bucket of distance each pair falls into (T5): half are one step wide, then they grow like a logarithm.

    bidirectional: the second half of the buckets is for keys after the query; otherwise such keys share bucket 0.
    """
    distance = k_positions.unsqueeze(-2) - q_positions.unsqueeze(-1)
    count = buckets // 2 if bidirectional else buckets
    first = torch.where(distance > 0, count, 0) if bidirectional else torch.zeros_like(distance)
    distance = distance.abs() if bidirectional else (-distance).clamp(min=0)
    exact = count // 2
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    large = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
    return first + torch.where(distance < exact, distance, large)


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """What T5 adds to the scores, as a rule: any block of it can be had without the whole of n x n numbers."""

    table: Tensor  # [buckets H] one number per bucket of distance and head
    q_positions: Tensor  # [Q] or [B Q]
    k_positions: Tensor  # [K] or [B K]
    max_distance: int
    bidirectional: bool

    def block(self, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor:
        """[B or 1, H, rows, keys]."""
        q, k = self.q_positions[..., rows], self.k_positions[..., keys]
        buckets = relative_buckets(q, k, len(self.table), self.max_distance, self.bidirectional)
        bias = F.embedding(buckets, self.table).movedim(-1, -3)  # [rows keys H] -> [H rows keys]
        return bias if bias.dim() == 4 else bias.unsqueeze(0)

    @property
    def entries(self) -> int:
        """How many numbers the whole has."""
        batch = max(p.shape[0] if p.dim() == 2 else 1 for p in (self.q_positions, self.k_positions))
        return batch * self.table.shape[1] * self.q_positions.shape[-1] * self.k_positions.shape[-1]

    def only(self, samples: slice, heads: slice) -> "DistanceBias":
        """That of these samples and heads."""
        q, k = (p if p.dim() == 1 else p[samples] for p in (self.q_positions, self.k_positions))
        return replace(self, table=self.table[:, heads], q_positions=q, k_positions=k)

    def to(self, device: torch.device | str) -> "DistanceBias":
        """The same on another device."""
        tensors = {"table": self.table, "q_positions": self.q_positions, "k_positions": self.k_positions}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})
