"""What a law is: a property that a model must have whatever its weights, tried on inputs of growing length."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from clearhead.config import TransformerConfig

LENGTHS = (2, 3, 5, 8)  # the first on which a law breaks is the smallest failing input
SOURCE = 4  # tokens of the text that an encoder beside a decoder reads
ROOM = 2e-4  # the change that rounding may make, as a share of the largest number (of 1 at least)


@dataclass
class Law:
    """One law: whether it holds (None: not applicable), in words, and the likely cause where it breaks."""

    name: str
    holds: bool | None
    words: str = ""
    cause: str | None = None


@dataclass(repr=False)
class Laws:
    """The report on one model."""

    laws: list[Law] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no law breaks."""
        return all(law.holds is not False for law in self.laws)

    def __repr__(self) -> str:
        marks = {True: "holds ", False: "BROKEN", None: "  -   "}
        return "\n".join(f"{marks[law.holds]}  {law.name}: {told(law)}" for law in self.laws)


def told(law: Law) -> str:
    return law.words if law.cause is None else f"{law.words}; likely {law.cause}"


class Model:
    """A module, seen as a function from a text [B, T] (or vectors [B, T, D]) to outputs [B, T, ...].

    Where a decoder stands beside an encoder, the text is the decoder's, and the encoder reads a source that follows
    from the text's first token.
    """

    def __init__(self, module: nn.Module):
        self.module = module
        self.config = getattr(module, "config", None)
        self.vocab = vocabulary(module, self.config)
        linear = next((m for m in module.modules() if isinstance(m, nn.Linear)), None)
        self.width = linear.in_features if linear else 8
        self.parameters = set(inspect.signature(module.forward).parameters)
        self.two_sided = "decoder_input_ids" in self.parameters and has_both(self.config)

    @property
    def mask_name(self) -> str | None:
        """The parameter that takes the text's mask, 1 = keep; None: there is none."""
        name = "decoder_attention_mask" if self.two_sided else "attention_mask"
        return name if name in self.parameters else None

    @property
    def dtype(self) -> torch.dtype:
        floats = [p.dtype for p in self.module.parameters() if p.is_floating_point()]
        return floats[0] if floats else torch.float32

    def draw(self, batch: int, count: int) -> Tensor:
        made = torch.Generator().manual_seed(count)
        if self.vocab:
            return torch.randint(4, max(5, self.vocab), (batch, count), generator=made).clamp(max=self.vocab - 1)
        return torch.randn(batch, count, self.width, generator=made, dtype=self.dtype)

    def other(self, x: Tensor) -> Tensor:
        """Other content of the same kind."""
        return (x + 1).remainder(self.vocab) if self.vocab else x + 1.0

    def source(self, x: Tensor) -> Tensor:
        """What the encoder reads beside text x: another source for another first token. [B, SOURCE]."""
        return (x[:, :1] + torch.arange(SOURCE)).remainder(self.vocab)

    def given(self, x: Tensor, mask: Tensor | None = None, source: Tensor | None = None) -> dict[str, Tensor]:
        """The arguments besides x: the mask, and the source where there is one."""
        more = {} if mask is None or self.mask_name is None else {self.mask_name: mask}
        return more if not self.two_sided else {**more, "input_ids": self.source(x) if source is None else source}

    def __call__(self, x: Tensor, mask: Tensor | None = None, source: Tensor | None = None, **more: Any) -> Tensor:
        given = {**self.given(x, mask, source), **more}
        with torch.no_grad():
            out = self.module(decoder_input_ids=x, **given) if self.two_sided else self.module(x, **given)
        return answer(out)


def vocabulary(module: nn.Module, config: Any) -> int:
    """How many token ids a model knows on every side; 0 where it takes vectors."""
    if isinstance(config, TransformerConfig):
        return min(stack.vocab for stack in config.stacks.values())
    tables = [m for m in module.modules() if isinstance(m, nn.Embedding)]
    return tables[0].num_embeddings if tables else 0  # tokens come before positions


def has_both(config: Any) -> bool:
    """Whether a configuration speaks of an encoder and a decoder. Ours names both, None where one is missing."""
    if hasattr(config, "encoder") and hasattr(config, "decoder"):
        return config.encoder is not None and config.decoder is not None
    return bool(getattr(config, "is_encoder_decoder", False))


def answer(out: Any) -> Tensor:
    """The tensor that matters of what a model returns: logits, else hidden states, else the first."""
    if isinstance(out, Tensor):
        return out
    named = [getattr(out, name, None) for name in ("logits", "last_hidden_state", "hidden")]
    found = next((value for value in named if isinstance(value, Tensor)), None)
    return cast(Tensor, out[0] if found is None else found)


def gap(a: Tensor, b: Tensor) -> float:
    """The largest difference, as a share of the largest number (of 1 at least)."""
    if a.shape != b.shape or not a.numel():
        return float("inf")
    return float((a.double() - b.double()).abs().max() / max(1.0, float(b.abs().max())))


def law(name: str, difference: Callable[[int], float], cause: str | None = None) -> Law:
    """The law that `difference(T)` is 0 up to rounding, on growing lengths; a call that fails is not applicable."""
    worst = 0.0
    for count in LENGTHS:
        try:
            found = difference(count)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            return missing(name, " ".join(str(error).split())[:100])
        if not found < ROOM:
            return Law(name, False, f"with {count} tokens the difference is {found:.3g}", cause)
        worst = max(worst, found)
    return Law(name, True, f"largest difference {worst:.1e}")


def missing(name: str, why: str) -> Law:
    return Law(name, None, f"not applicable: {why}")
