"""Executable laws: properties that a model must have whatever its weights, tried on small inputs.

For any nn.Module that takes token ids [B, T] (with `attention_mask`, 1 = keep, where it has one) or vectors [B, T, D].
What needs more than that (caches, weights) is tried on our own models and reported as not applicable elsewhere.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

LENGTHS = (2, 3, 5, 8)  # the first on which a law breaks is the smallest failing input


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
        return "\n".join(f"{marks[law.holds]}  {law.name}: {law.words}" for law in self.laws)


class Model:
    """A module, seen as a function from an input [B, T, ...] to outputs [B, T, ...]."""

    def __init__(self, module: nn.Module):
        self.module = module
        tables = [m for m in module.modules() if isinstance(m, nn.Embedding)]
        self.vocab = tables[0].num_embeddings if tables else 0  # tokens come before positions
        linear = next((m for m in module.modules() if isinstance(m, nn.Linear)), None)
        self.width = linear.in_features if linear else 8
        self.parameters = set(inspect.signature(module.forward).parameters)
        self.ours = type(module).__module__.startswith("clearhead.")

    @property
    def masked(self) -> bool:
        return "attention_mask" in self.parameters

    def draw(self, batch: int, count: int) -> Tensor:
        made = torch.Generator().manual_seed(count)
        if self.vocab:
            return torch.randint(4, max(5, self.vocab), (batch, count), generator=made).clamp(max=self.vocab - 1)
        return torch.randn(batch, count, self.width, generator=made, dtype=self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        floats = [p.dtype for p in self.module.parameters() if p.is_floating_point()]
        return floats[0] if floats else torch.float32

    def other(self, x: Tensor) -> Tensor:
        """Other content of the same kind."""
        return (x + 1).remainder(self.vocab) if self.vocab else x + 1.0

    def __call__(self, x: Tensor, mask: Tensor | None = None, **more: Any) -> Tensor:
        with torch.no_grad():
            out = self.module(x, attention_mask=mask, **more) if mask is not None else self.module(x, **more)
        out = getattr(out, "logits", None) if hasattr(out, "logits") else out
        out = out[0] if isinstance(out, tuple | list) else out
        return cast(Tensor, out)


def laws(model: nn.Module, causal: bool | None = None) -> Laws:
    """Tries every law that applies to a model, in eval mode; the model is left as it was.

    Args:
        model: takes ids [B, T] or vectors [B, T, D]; returns [B, T, ...], first of a tuple, or as `.logits`.
        causal: whether later tokens must have no influence; None: read it from the configuration, else only report.

    Returns:
        A Laws report: `.passed`, and `.laws` with words and the smallest failing input.
    """
    training = model.training
    model.eval()
    try:
        seen = Model(model)
        must = says_causal(model) if causal is None else causal
        return Laws(
            [
                no_leak(seen, must),
                neighbours(seen),
                hidden(seen),
                padded(seen),
                order(seen, must),
                cached(seen),
                half(seen),
            ]
        )
    finally:
        model.train(training)


def says_causal(model: nn.Module) -> bool | None:
    """What the configuration says, or None."""
    config = getattr(model, "config", None)
    if hasattr(config, "decoder") and hasattr(config, "encoder"):
        return config.encoder is None  # pyright: ignore
    if type(model).__name__.endswith("ForCausalLM"):
        return True
    return getattr(config, "is_decoder", None)


def gap(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max()) if a.shape == b.shape and a.numel() else float("inf")


def law(name: str, lengths: tuple[int, ...], difference: Callable[[int], float], cause: str | None = None) -> Law:
    """The law that `difference(T)` is 0 up to rounding, on growing lengths; a call that fails is not applicable."""
    worst = 0.0
    for count in lengths:
        try:
            found = difference(count)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            return Law(name, None, f"not applicable: {' '.join(str(error).split())[:100]}")
        if not found < 2e-4:
            return Law(name, False, f"with {count} tokens the output changes by {found:.3g}", cause)
        worst = max(worst, found)
    return Law(name, True, f"largest change {worst:.1e}")


def no_leak(model: Model, must: bool | None) -> Law:
    """A later token changed: earlier outputs stay."""

    def difference(count: int) -> float:
        x = model.draw(2, count)
        changed = x.clone()
        changed[:, -1:] = model.other(x[:, -1:])
        return gap(model(x)[:, : count - 1], model(changed)[:, : count - 1])

    found = law("no leak from the future", LENGTHS, difference, "causal-missing")
    if found.holds is False and must is not True:
        return Law(found.name, None, "later tokens have influence, as in an encoder; pass causal=True if they must not")
    return found


def neighbours(model: Model) -> Law:
    """A sample alone gives what it gives in a batch."""

    def difference(count: int) -> float:
        x = model.draw(3, count)
        return gap(model(x)[1:2], model(x[1:2]))

    return law("a sample does not change with its neighbours", LENGTHS, difference, "attend-over-batch")


def hidden(model: Model) -> Law:
    """A hidden token changed: the outputs of the others stay."""
    if not model.masked:
        return Law("hidden tokens have no influence", None, "not applicable: no attention_mask")

    def difference(count: int) -> float:
        x, mask = model.draw(2, count + 1), torch.ones(2, count + 1, dtype=torch.int64)
        mask[:, -1] = 0
        changed = x.clone()
        changed[:, -1:] = model.other(x[:, -1:])
        return gap(model(x, mask)[:, :count], model(changed, mask)[:, :count])

    return law("hidden tokens have no influence", LENGTHS, difference, "mask-not-assigned")


def padded(model: Model) -> Law:
    """Padding on the right or left changes nothing."""
    if not model.masked:
        return Law("padding changes nothing", None, "not applicable: no attention_mask")

    def difference(count: int) -> float:
        x, more = model.draw(2, count), model.draw(2, count + 2)
        alone, gaps = model(x, torch.ones(2, count, dtype=torch.int64)), []
        for left in (False, True):
            place = slice(2, None) if left else slice(0, count)
            filled, mask = more.clone(), torch.zeros(2, count + 2, dtype=torch.int64)
            filled[:, place], mask[:, place] = x, 1
            gaps.append(gap(model(filled, mask)[:, place], alone))
        return max(gaps)

    return law("padding changes nothing, left or right", LENGTHS, difference, "mask-row-instead-of-column")


def order(model: Model, causal: bool | None) -> Law:
    """Without positions and without a triangle, permuted tokens give permuted outputs."""
    name = "permuted tokens give permuted outputs"
    if model.vocab or causal:
        return Law(name, None, "not applicable: the model has positions or a triangle")

    def difference(count: int) -> float:
        x, turn = model.draw(2, count), torch.arange(count).roll(1)
        return gap(model(x)[:, turn], model(x[:, turn]))

    return law(name, LENGTHS, difference, "heads-split-no-transpose")


def cached(model: Model) -> Law:
    """Token by token through the cache gives what one pass gives."""
    config = getattr(model.module, "config", None)
    if not model.ours or getattr(config, "encoder", None) is not None:
        return Law("cached = full", None, "not applicable: known for our decoders only")
    from clearhead.model.cache import Cache

    def difference(count: int) -> float:
        x, cache = model.draw(2, count), Cache()
        steps = [model(x[:, t : t + 1], cache=cache) for t in range(count)]
        return gap(torch.cat(steps, 1), model(x))

    return law("cached = full", LENGTHS, difference, "cache-position-zero")


def half(model: Model) -> Law:
    """The output is finite in bfloat16."""
    try:
        small = Model(copy.deepcopy(model.module).to(torch.bfloat16))
        finite = bool(torch.isfinite(small(small.draw(2, 5)).float()).all())
    except (TypeError, ValueError, RuntimeError) as error:
        return Law("finite in half precision", None, f"not applicable: {' '.join(str(error).split())[:100]}")
    return Law("finite in half precision", finite, "bfloat16", None if finite else "softmax-overflow")
