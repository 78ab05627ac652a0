"""What the tests of the view's data share: small models that read text, recordings, and what an operation made."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from clearhead.config import TransformerConfig
from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.lens.rows import Weights
from clearhead.model.transformer import Transformer
from clearhead.text.build import char_tokenizer
from clearhead.view.reading import Part, Reading, read
from clearhead.view.scene import Scene
from model.tiny import VOCAB, post_norm_translator, rotary_decoder

LETTERS = "abcdefghijklmnopqrstuvwxyz <>&;"
TEXT = "what one reads is what one is"


def random_model(config: TransformerConfig) -> Transformer:
    """Every number random, so that no head is even and no bias is 0."""
    torch.manual_seed(0)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    return model


def reader(config: TransformerConfig) -> Transformer:
    """A random model with a tokenizer of letters."""
    model = random_model(config)
    model.tokenizer = char_tokenizer([LETTERS], bos=config.bos is not None, eos=config.encoder is not None)
    assert len(model.tokenizer) <= VOCAB
    return model


def writer() -> Transformer:
    return reader(rotary_decoder())


def translator() -> Transformer:
    return reader(post_norm_translator())


def scene_of(model: Transformer, text: str = TEXT, to: str | None = None) -> Scene:
    return Scene(read(model, text, to), model, "a test")


def weights(queries: int, keys: int, heads: int = 2, causal: bool = True, **rule: Any) -> Weights:
    """Random queries and keys of a recording."""
    visible = Visible.last(queries, keys, causal=causal, **rule)
    return Weights(2 * torch.randn(1, heads, queries, 4), torch.randn(1, heads, keys, 4), Scoring(visible, 0.9))


def recording(n: int, layers: int = 2, heads: int = 2, name: str = "decoder") -> Scene:
    """A scene without a model."""
    tokens = [f"t{i}" for i in range(n)]
    views = [weights(n, n, heads, causal=name == "decoder") for _ in range(layers)]
    return Scene(Reading.of([Part(name, tokens, tokens, views, torch.arange(n) % 7)]))


def alike_and_not(n: int = 60) -> Scene:
    """A layer whose queries nearly agree, and one of noise."""
    alike, noise = weights(n, n, causal=False), weights(n, n, causal=False)
    alike.q[:] = alike.q[:, :, :1] + 0.05 * torch.randn_like(alike.q)
    tokens = [f"t{i}" for i in range(n)]
    return Scene(Reading.of([Part("encoder", tokens, tokens, [alike, noise])]))


def floats(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.float32)


class Largest(TorchDispatchMode):
    """Keeps the size of the largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for found in tree_flatten(out)[0]:
            if isinstance(found, Tensor) and found.untyped_storage().nbytes():
                self.numel = max(self.numel, found.untyped_storage().nbytes() // max(1, found.element_size()))
        return out
