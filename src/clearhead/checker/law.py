"""What a law is: a property that a model must have whatever its weights, tried on inputs of growing length."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from clearhead.config import TextClassifier, TransformerConfig

LENGTHS = (2, 3, 5, 8)  # the first on which a law breaks is the smallest failing input
SOURCE = 4  # tokens of the text that an encoder beside a decoder reads
WHOLE = "ForSequenceClassification"  # how other libraries call such classes
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

    Where a decoder stands beside an encoder, the text is the decoder's, and the encoder reads or hears a source that
    follows from the text's first token. Where an encoder alone hears, a vector is what its two frames hold. An answer
    about the whole text counts as that of each of its tokens.
    """

    def __init__(self, module: nn.Module):
        self.module = module
        self.config = getattr(module, "config", None)
        self.vocab = vocabulary(module, self.config)
        self.parameters = set(inspect.signature(module.forward).parameters)
        self.sound = sound(self.config) if "input_features" in self.parameters else None
        linear = next((m for m in module.modules() if isinstance(m, nn.Linear)), None)
        self.width = 2 * self.sound[0] if self.sound else linear.in_features if linear else 8
        self.two_sided = "decoder_input_ids" in self.parameters and has_both(self.config)
        own = self.config if isinstance(self.config, TransformerConfig) else None
        labels = isinstance(own.head, TextClassifier) if own else type(module).__name__.endswith(WHOLE)
        self.whole = labels  # one answer for the whole text
        self.ends = own.eos_ids[0] if own and getattr(own.head, "pool", None) == "eos" else None

    @property
    def mask_name(self) -> str | None:
        """The parameter that takes the text's mask, 1 = keep; None: there is none."""
        name = "decoder_attention_mask" if self.two_sided else "attention_mask"
        return name if name in self.parameters and (self.two_sided or not self.sound) else None

    @property
    def dtype(self) -> torch.dtype:
        floats = [p.dtype for p in self.module.parameters() if p.is_floating_point()]
        return floats[0] if floats else torch.float32

    def draw(self, batch: int, count: int) -> Tensor:
        made = torch.Generator().manual_seed(count)
        if self.vocab:
            drawn = torch.randint(4, max(5, self.vocab), (batch, count), generator=made).clamp(max=self.vocab - 1)
            drawn[:, 1:2] = drawn[:, 1:2] if self.ends is None else self.ends  # a head looks for it
            return drawn
        return torch.randn(batch, count, self.width, generator=made, dtype=self.dtype)

    def other(self, x: Tensor) -> Tensor:
        """Other content of the same kind."""
        return (x + 1).remainder(self.vocab) if self.vocab else x + 1.0

    def source(self, x: Tensor) -> Tensor:
        """What the encoder reads beside text x: another source for another first token. [B, SOURCE], or of sound
        [B, bins, frames].
        """
        if self.sound is None:
            return (x[:, :1] + torch.arange(SOURCE)).remainder(self.vocab)
        bins, frames = self.sound
        return torch.sin((x[:, :1] + 1) * torch.arange(bins * frames)).unflatten(1, (bins, frames)).to(self.dtype)

    def given(self, x: Tensor, mask: Tensor | None = None, source: Tensor | None = None) -> dict[str, Tensor]:
        """The arguments besides x: the mask, and the source where there is one."""
        more = {} if mask is None or self.mask_name is None else {self.mask_name: mask}
        name = "input_features" if self.sound else "input_ids"
        return more if not self.two_sided else {**more, name: self.source(x) if source is None else source}

    def __call__(self, x: Tensor, mask: Tensor | None = None, source: Tensor | None = None, **more: Any) -> Tensor:
        given = {**self.given(x, mask, source), **more}
        with torch.no_grad():
            if self.two_sided:
                return answer(self.module(decoder_input_ids=x, **given))
            if self.sound:
                frames = x.unflatten(2, (self.sound[0], 2)).transpose(1, 2).flatten(2)
                out = answer(self.module(input_features=frames, **given))
            else:
                out = answer(self.module(x, **given))
        return out[:, None].expand(-1, x.shape[1], *out.shape[1:]) if self.whole else out


def vocabulary(module: nn.Module, config: Any) -> int:
    """How many token ids a model knows on every side that reads; 0 where it takes vectors."""
    if isinstance(config, TransformerConfig):
        return min((stack.vocab for stack in config.stacks.values() if stack.audio is None), default=0)
    if isinstance(size := getattr(config, "vocab_size", None), int):
        return size
    tables = [m for m in module.modules() if isinstance(m, nn.Embedding)]
    return tables[0].num_embeddings if tables else 0  # tokens come before positions


def sound(config: Any) -> tuple[int, int] | None:
    """(bins, frames) of what a model's encoder hears; None where it hears nothing. Some hear one length only."""
    if isinstance(config, TransformerConfig):
        audio = config.encoder.audio if config.encoder else None
        return None if audio is None else (audio.bins, 2 * SOURCE)
    bins, count = getattr(config, "num_mel_bins", None), getattr(config, "max_source_positions", None)
    return (bins, 2 * count) if isinstance(bins, int) and isinstance(count, int) else None


def has_both(config: Any) -> bool:
    """Whether a configuration speaks of an encoder and a decoder, with a text each. Ours names both, None where one is
    missing.
    """
    if getattr(config, "reads_twice", False):
        return False
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
