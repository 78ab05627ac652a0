"""For test suites: one line that fails with the mistake's name."""

from __future__ import annotations

from typing import Any

from torch import nn

from clearhead.checker.laws import laws
from clearhead.checker.live import check


def assert_attention(function_or_path: Any, **flags: str) -> None:
    """Raises AssertionError, with the whole report, unless the code is right. flags: those of `clearhead.check`."""
    report = check(function_or_path, **flags)
    if report.passed is not True:
        raise AssertionError(report.words())


def assert_laws(model: nn.Module, causal: bool | None = None) -> None:
    """Raises AssertionError, with every law, if the model breaks one. causal: as for `clearhead.laws`."""
    found = laws(model, causal)
    if not found.passed:
        raise AssertionError(repr(found))
