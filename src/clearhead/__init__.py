"""clearhead: the Transformer you can see through.

The public names are imported on first use, so that `clearhead --help` and the lesson's first pages need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.checker.compare import compare_models as compare_models
    from clearhead.checker.laws import laws as laws
    from clearhead.checker.live import check as check
    from clearhead.config import TransformerConfig as TransformerConfig
    from clearhead.families.load import load as load
    from clearhead.families.load import save as save
    from clearhead.families.presets import preset as preset
    from clearhead.formulas.attention import attention as attention
    from clearhead.formulas.attention import attention_weights as attention_weights
    from clearhead.generation.generate import generate as generate
    from clearhead.generation.text import complete as complete
    from clearhead.generation.text import translate as translate
    from clearhead.lens.edit import edit as edit
    from clearhead.lens.edits import ablate as ablate
    from clearhead.lens.record import record as record
    from clearhead.model.cache import Cache as Cache
    from clearhead.model.classify import classify as classify
    from clearhead.model.describe import describe as describe
    from clearhead.model.embed import embed as embed
    from clearhead.model.transformer import Transformer as Transformer
    from clearhead.tap import sites as sites
    from clearhead.view.figures import plot as plot
    from clearhead.view.look import look as look

__version__ = "0.1.0"

_HOMES = {
    "ablate": "clearhead.lens.edits",
    "Cache": "clearhead.model.cache",
    "Transformer": "clearhead.model.transformer",
    "TransformerConfig": "clearhead.config",
    "attention": "clearhead.formulas.attention",
    "attention_weights": "clearhead.formulas.attention",
    "check": "clearhead.checker.live",
    "classify": "clearhead.model.classify",
    "compare_models": "clearhead.checker.compare",
    "complete": "clearhead.generation.text",
    "describe": "clearhead.model.describe",
    "embed": "clearhead.model.embed",
    "edit": "clearhead.lens.edit",
    "generate": "clearhead.generation.generate",
    "laws": "clearhead.checker.laws",
    "load": "clearhead.families.load",
    "look": "clearhead.view.look",
    "plot": "clearhead.view.figures",
    "preset": "clearhead.families.presets",
    "record": "clearhead.lens.record",
    "save": "clearhead.families.load",
    "sites": "clearhead.tap",
    "translate": "clearhead.generation.text",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "lens":
        return import_module("clearhead.lens")
    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}; it has {', '.join(_HOMES)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
