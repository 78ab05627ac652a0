"""Training with compiled layers: the same gradients, and no compilation for each batch."""

import shutil
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend

from clearhead.model.transformer import Transformer
from clearhead.train.compute import layers_as
from clearhead.train.loop import backward
from clearhead.train.loss import Batch
from train.test_loss import small

# Dynamo itself looks at the gradients of what enters a layer.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore:.*torch.jit.script")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def deep(kind: str, layers: int = 3) -> Transformer:
    """More layers, each with a form of its own, as when it is read from a file."""
    config = small(kind).config
    stacks = {
        name: replace(s, layers=tuple(replace(s.layers[0]) for _ in range(layers))) for name, s in config.stacks.items()
    }
    return Transformer(replace(config, **stacks)).double()


def batch(rows: int, source: int, target: int) -> Batch:
    ids, labels = torch.randint(3, 11, (rows, source)), torch.randint(3, 11, (rows, target))
    labels[0, 1:] = -100
    mask = torch.ones_like(ids)
    mask[0, 2:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def gradients(model: Transformer, given: Batch) -> dict[str, Tensor]:
    model.zero_grad()
    backward(model, [given], smoothing=0.1)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("again", [False, True])
def test_gradients_are_the_same_and_many_shapes_need_few_compilations(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    counter = CompileCounter()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    model = deep("both")
    shapes = [(2, 5, 6), (3, 7, 4), (4, 9, 8), (5, 4, 9), (2, 11, 7), (6, 8, 5)]
    counts: list[int] = []
    for given in (batch(*shape) for shape in shapes):
        expected = gradients(model, given)
        with layers_as(model, compiled=True, again=again):
            found = gradients(model, given)
        assert found.keys() == expected.keys()
        for name, gradient in found.items():
            assert (gradient - expected[name]).abs().max() < 1e-12, name
        counts.append(counter.frame_count)
    assert 0 < counts[0] <= 2, "one for the layers of each stack"
    assert counts[-1] == counts[2], "none for later batches"


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_compiled_by_inductor() -> None:
    model, given = deep("decoder", layers=1).float(), batch(2, 6, 6)
    given["input_ids"] = given["labels"].clamp(min=3)
    expected = gradients(model, given)
    counter = CompileCounterWithBackend("inductor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", partial(torch.compile, backend=counter))
        with layers_as(model, compiled=True, again=False):
            found = gradients(model, given)
    assert counter.frame_count == 1
    for name, gradient in found.items():
        assert torch.allclose(gradient, expected[name], atol=1e-5), name
    assert not [name for name, _ in model.named_parameters() if "_orig" in name]
