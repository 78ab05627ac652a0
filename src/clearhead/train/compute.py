"""How a step is computed: in which type, compiled or not, what is kept for the way back, and what the head reads."""

import functools
import os
import shutil
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clearhead.model.transformer import Transformer
from clearhead.tap import Tap

T = TypeVar("T")
Dtype = Literal["float32", "bfloat16"]


def computing(dtype: Dtype, device: str) -> AbstractContextManager[Any]:
    """bfloat16: matrix products in bf16, weights and sums in float32 (autocast). float32: as the weights are."""
    return torch.autocast(device.partition(":")[0], torch.bfloat16) if dtype == "bfloat16" else nullcontext()


@contextmanager
def layers_as(model: Transformer, compiled: bool, again: bool) -> Generator[None]:
    """Within it every layer is compiled, or computed again on the way back instead of kept; bit for bit as before then.

    Layers of one form share one compiled function, which is made anew at the second length and then serves all.
    Raises ValueError where there is no compiler.
    """
    if compiled:
        check_compiler(next(model.parameters()).device.type)
    layers = _layers(model)
    for layer in layers if compiled or again else ():
        forward: Any = torch.compile(layer.forward) if compiled else layer.forward
        vars(layer)["forward"] = functools.partial(_checkpointed, forward) if again else forward
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


@contextmanager
def layers_as_written(model: Transformer) -> Generator[None]:
    """Within it layers are neither compiled nor computed again: a look would have them compiled anew for its shapes."""
    held = {layer: vars(layer).pop("forward", None) for layer in _layers(model)}
    try:
        yield
    finally:
        for layer, forward in held.items():
            if forward is not None:
                vars(layer)["forward"] = forward


def _layers(model: Transformer) -> list[nn.Module]:
    return [layer for stack in (model.encoder, model.decoder) if stack is not None for layer in stack.layers]


def _checkpointed(forward: Any, *given: Any) -> Tensor:
    return cast(Tensor, checkpoint(forward, *given, use_reentrant=False))


def check_compiler(device: str) -> None:
    """ValueError unless something can be compiled here."""
    names = filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++", "cl"))
    if device == "cpu" and not any(map(shutil.which, names)):
        raise ValueError("compile is true, but there is no C++ compiler; install g++ or clang++, or set compile: false")


class Answers(Tap):
    """Hands on to another tap, and lets the head see only the states where something is asked: logits are [N, V].

    rows [N]: places in [B*T]. In a padded batch a quarter of what head and loss would do is for nothing.
    """

    def __init__(self, rows: Tensor, inner: Tap, stack: str):
        self.rows, self.inner, self.stack = rows, inner, stack

    def text(self, stack: str, ids: Any, cache: Any) -> Tap:
        return Answers(self.rows, self.inner.text(stack, ids, cache), self.stack)

    def at(self, name: str) -> Tap:
        inner = self.inner.at(name)
        return _Final(self.rows, inner) if name == self.stack else inner

    def __call__(self, site: str, value: T) -> T:
        return self.inner(site, value)


class _Final(Tap):
    def __init__(self, rows: Tensor, inner: Tap):
        self.rows, self.inner = rows, inner

    def at(self, name: str) -> Tap:
        return self.inner.at(name)

    def __call__(self, site: str, value: T) -> T:
        value = self.inner(site, value)
        if site != "final" or not isinstance(value, Tensor):
            return value
        return cast(T, value.flatten(0, 1).index_select(0, self.rows))
