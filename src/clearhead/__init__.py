"""clearhead: the Transformer you can see through.

The public names are imported on first use, so that `clearhead --help` and the lesson's first pages need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.config import TransformerConfig as TransformerConfig
    from clearhead.formulas.attention import attention as attention
    from clearhead.formulas.attention import attention_weights as attention_weights
    from clearhead.model.cache import Cache as Cache
    from clearhead.model.transformer import Transformer as Transformer
    from clearhead.tap import sites as sites

__version__ = "0.1.0"

_HOMES = {
    "Cache": "clearhead.model.cache",
    "Transformer": "clearhead.model.transformer",
    "TransformerConfig": "clearhead.config",
    "attention": "clearhead.formulas.attention",
    "attention_weights": "clearhead.formulas.attention",
    "sites": "clearhead.tap",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}; it has {', '.join(_HOMES)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
