"""What a recording will hold, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from clearhead.config import Attention, TransformerConfig
from clearhead.lens.aliases import addresses


def cost(
    config: TransformerConfig,
    wanted: str | Sequence[str],
    *,
    tokens: int,
    source: int | None = None,
    batch: int = 1,
    dtype: torch.dtype = torch.float32,
) -> dict[str, int]:
    """Bytes that `record(model, wanted)` will hold after one call, by address; their sum is the whole.

    tokens: of the text; beside an encoder, of the target, and `source` of the source. Scores and weights are their
    queries and keys, which count once, at the first address that holds them. Raises ValueError for an unknown address.
    """
    both, held, costs = len(config.stacks) == 2, set[str](), dict[str, int]()
    lengths = {"encoder": (source or tokens) if both else tokens, "decoder": tokens}
    for address in addresses(config, wanted):
        total = 0
        for part, numbers in _parts(config, address, lengths).items():
            total += 0 if part in held else numbers * batch * dtype.itemsize
            held.add(part)
        costs[address] = total
    return costs


def _parts(config: TransformerConfig, address: str, lengths: dict[str, int]) -> dict[str, int]:
    """The tensors that an address holds, and how many numbers each has for one sample."""
    names = address.split(".")
    if len(names) < 4 or names[2] not in ("self", "cross"):
        stack = names[0] if names[0] in lengths else "decoder" if config.decoder else "encoder"
        return {address: _width(config, names) * lengths[stack]}
    stack, number, part, site = names
    layer = config.stacks[stack].layers[int(number)]
    look = layer.self_attention if part == "self" else layer.cross_attention
    assert look is not None
    sizes = _sizes(look, config.dim, lengths[stack], lengths[stack if part == "self" else "encoder"])
    needed = ("q", "k") if site in ("scores", "weights") else (site,)
    return {address.removesuffix(site) + name: sizes[name] for name in needed}


def _sizes(look: Attention, dim: int, queries: int, keys: int) -> dict[str, int]:
    width = look.width(dim)
    q, k = look.heads * width * queries, look.groups * width * keys
    return {"q": q, "k": k, "v": k, "heads": q, "out": dim * queries}


def _width(config: TransformerConfig, names: list[str]) -> int:
    """Numbers per token."""
    if names == ["logits"]:
        return (config.decoder or next(iter(config.stacks.values()))).vocab
    if names[-1] == "hidden":
        return config.stacks[names[0]].layers[int(names[1])].feed_forward.dim
    return config.dim
