"""The lens: record, change and question any model. Names are imported on first use.

Changes for `edit`: ablate, scale, steer, patch, freeze, knock_out, without_sink.
Questions about one text: logit_lens, direct_logit_attribution, saliency, alignment, rollout, norms.
Questions about heads and places: head_importance, find_heads, compare_heads, patch_sweep, alignment_error.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.lens.aligning import alignment as alignment
    from clearhead.lens.aligning import alignment_error as alignment_error
    from clearhead.lens.aligning import error_rate as error_rate
    from clearhead.lens.attributing import saliency as saliency
    from clearhead.lens.comparing import compare_heads as compare_heads
    from clearhead.lens.edits import ablate as ablate
    from clearhead.lens.edits import freeze as freeze
    from clearhead.lens.edits import knock_out as knock_out
    from clearhead.lens.edits import patch as patch
    from clearhead.lens.edits import scale as scale
    from clearhead.lens.edits import steer as steer
    from clearhead.lens.edits import without_sink as without_sink
    from clearhead.lens.explanation import explain as explain
    from clearhead.lens.finding import find_heads as find_heads
    from clearhead.lens.flow import rollout as rollout
    from clearhead.lens.importance import head_importance as head_importance
    from clearhead.lens.lengths import norms as norms
    from clearhead.lens.memory import cost as cost
    from clearhead.lens.patching import patch_sweep as patch_sweep
    from clearhead.lens.patching import restored as restored
    from clearhead.lens.projection import direct_logit_attribution as direct_logit_attribution
    from clearhead.lens.projection import logit_lens as logit_lens

_HOMES = {
    **dict.fromkeys(["ablate", "freeze", "knock_out", "patch", "scale", "steer", "without_sink"], "edits"),
    "cost": "memory",
    **dict.fromkeys(["alignment", "alignment_error", "error_rate"], "aligning"),
    "rollout": "flow",
    "compare_heads": "comparing",
    "explain": "explanation",
    "find_heads": "finding",
    "head_importance": "importance",
    "norms": "lengths",
    **dict.fromkeys(["patch_sweep", "restored"], "patching"),
    "saliency": "attributing",
    **dict.fromkeys(["direct_logit_attribution", "logit_lens"], "projection"),
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"clearhead.lens has no {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(f"clearhead.lens.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
