"""The reference of each task as stages, and the probes that go with it."""

from __future__ import annotations

from types import ModuleType


def probe_module(task: str) -> ModuleType:
    """The module with `probes`, `predict` and `read_answer` for a task."""
    from clearhead.checker.tasks import attention, cache, masks, position, shift

    modules = {"causal_mask": masks, "positional_encoding": position, "decoder_shift": shift, "kv_cache": cache}
    return modules.get(task, attention)
