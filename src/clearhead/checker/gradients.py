"""Probes of the backward pass: is it there, is it whole, is it finite where the forward pass is."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.engine import Failed
from clearhead.checker.judge import Trial
from clearhead.checker.layout import give
from clearhead.checker.tasks import probe_module


def gradient_faults(trial: Trial) -> list[tuple[str, str]]:
    """grad-detached and nan-gradient, for torch code whose output is right."""
    found = [] if trial.setup.layout else detached(trial)
    return found or nan_gradient(trial)


def backward(trial: Trial, case: Any, names: Any) -> Any:
    """(inputs that want a gradient, output), or Failed."""
    import torch

    from clearhead.checker.subject import evaluate

    env = trial.environment(case)
    inputs = {}
    for name in names:
        if isinstance(env.get(name), torch.Tensor) and env[name].is_floating_point():
            inputs[name] = env[name].requires_grad_()
    with torch.enable_grad():
        value = evaluate(trial.subject, trial.setup.call, env)
    if isinstance(value, Failed):
        return inputs, value
    parts = (
        list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, tuple | list) else [value]
    )
    tensors = [p for p in parts if isinstance(p, torch.Tensor)]
    want = probe_module(trial.setup.task).predict(trial.setup, case, {})
    shape = None if isinstance(want, Failed) else give(want, trial.setup.layout).shape
    fitting = [t for t in tensors if tuple(t.shape) == shape]
    if not fitting:
        return inputs, Failed("no output")
    return inputs, fitting[-1] if trial.setup.returns == "weights,out" else fitting[0]


def detached(trial: Trial) -> list[tuple[str, str]]:
    """The gradient of a random projection of the output, against finite differences, per input."""
    import torch

    case = trial.cases[0]
    if isinstance(trial.answers[0], Failed) or not trial.setup.uses & {"Q", "K", "V", "x", "mem"}:
        return []
    names = sorted(trial.setup.uses & {"Q", "K", "V", "x", "mem", "Wq", "Wk", "Wv", "Wo", "Wqkv"})
    inputs, out = backward(trial, case, names)
    if isinstance(out, Failed):
        return (
            [("grad-detached", f"with inputs that want gradients it fails: {out.words}")] if "grad" in out.words else []
        )
    if not out.requires_grad:
        return [("grad-detached", "the output does not depend on the inputs for autograd")]
    rng = np.random.default_rng(5)
    rows = rng.standard_normal(tuple(out.shape))
    rows = rows * np.isfinite(out.detach().double().numpy())
    (out.double() * torch.from_numpy(rows)).nan_to_num().sum().backward()
    for name, tensor in inputs.items():
        want = slope(trial, case, name, rows)
        direction = np.random.default_rng(6).standard_normal(tuple(tensor.shape))
        got = 0.0 if tensor.grad is None else float((tensor.grad.double().numpy() * direction).sum())
        if want is not None and abs(got - want) > 1e-2 * max(1.0, abs(want)):
            return [
                ("grad-detached", f"the gradient of {name} along a direction is {got:.3f}, by differences {want:.3f}")
            ]
    return []


def slope(trial: Trial, case: Any, name: str, rows: Any) -> Any:
    """The derivative by differences of the projected reference along a fixed direction of one input."""
    from clearhead.checker.engine import Case
    from clearhead.checker.tasks.variations import build_like

    direction = np.random.default_rng(6).standard_normal(case.names[name].shape)
    step = 1e-5
    values = []
    for sign in (1, -1):
        moved: Case = build_like(trial.setup, case, name, sign * step * direction)
        want = trial.predict(moved, {})
        if isinstance(want, Failed):
            return None
        values.append(float((np.nan_to_num(want) * rows).sum()))
    return (values[0] - values[1]) / (2 * step)


def nan_gradient(trial: Trial) -> list[tuple[str, str]]:
    """A query that sees nothing: where the forward pass is finite, the gradient must be."""
    import torch

    from clearhead.checker.tasks.variations import hidden_row

    case = hidden_row(trial.setup)
    if case is None:
        return []
    names = sorted(trial.setup.uses & {"Q", "K", "V", "x", "mem"})
    inputs, out = backward(trial, case, names)
    if isinstance(out, Failed) or not bool(torch.isfinite(out).all()) or not out.requires_grad:
        return []
    out.sum().backward()
    bad = [n for n, t in inputs.items() if t.grad is not None and not bool(torch.isfinite(t.grad).all())]
    return (
        [("nan-gradient", f"a query sees nothing: the output is finite, but the gradient of {', '.join(bad)} is not")]
        if bad
        else []
    )
