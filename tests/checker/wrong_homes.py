"""Models of the home library in which one detail is made wrong, each with the bank's name for it."""

from collections.abc import Callable
from typing import Any

import torch


def gone(part: str) -> Callable[[Any], None]:
    """Every module whose name ends so does nothing."""

    def change(model: Any) -> None:
        for name in [name for name, _ in model.named_modules() if name.endswith(part)]:
            model.set_submodule(name, torch.nn.Identity())

    return change


def times(factor: float, ending: str, more: float = 0.0) -> Callable[[Any], None]:
    """Every parameter and buffer whose name ends so, times a factor, plus a number."""

    def change(model: Any) -> None:
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith(ending):
                value.mul_(factor).add_(more)

    return change


def in_pairs(model: Any) -> None:
    """Rows of q and k so that the numbers which turn together stand side by side: half of a head apart at home."""
    for name, value in model.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = value.unflatten(0, (-1, 10))
            value.copy_(torch.cat([heads[:, 0::2], heads[:, 1::2]], 1).flatten(0, 1))


def interleaved(model: Any) -> None:
    """Sines and cosines by turns, where the table has first all sines."""
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weight
        sines, cosines = table.chunk(2, 1)
        table.data = torch.stack([sines, cosines], 2).flatten(1)


def from_row_1(model: Any) -> None:
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.offset = 1


def unscaled(model: Any) -> None:
    model.config.scale_decoder_outputs = False


def sees_later(model: Any) -> None:
    for part in model.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = False
    model.config.is_causal = False


# What else the bank knows, done to the home library's model.
PORTS: list[tuple[str, Callable[[Any], None], str]] = [
    ("llama", in_pairs, "rotary-layout"),
    ("llama", times(0.0, "inv_freq"), "rotary-missing"),
    ("llama", times(1.0, "norm.weight", 1.0), "norm-plus-one"),
    ("qwen3", gone("_norm"), "qk-norm-missing"),
    ("qwen2", times(0.0, "bias"), "bias-missing"),
    ("t5", unscaled, "head-scale"),
    ("gpt2", times(0.0, "wpe.weight"), "position-missing"),
    ("bart", from_row_1, "position-offset"),
    ("marian", interleaved, "position-kind"),
    ("gemma2", gone("model.norm"), "norm-out-missing"),
    ("bert", gone("embeddings.LayerNorm"), "norm-in-missing"),
    ("llama", sees_later, "causal"),
]
