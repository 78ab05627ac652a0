"""One model: up to two stacks and a head, and the tokens that are special to it."""

import json
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from clearhead import fields
from clearhead.config.parts import AnyHead, Head, Norm, Stack
from clearhead.config.problems import problems


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """One model: encoder only, decoder only, or both (then the decoder has cross-attention).

    Raises ValueError, naming the field, the numbers and the fix, if the parts do not fit together.
    """

    dim: int
    norm: Norm = field(default_factory=Norm)
    encoder: Stack | None = None
    decoder: Stack | None = None
    head: AnyHead | None = field(default_factory=Head)  # None: the hidden states are the result
    shared_embeddings: bool = False  # encoder and decoder read the same table
    pad: int | None = None
    bos: int | None = None
    eos: int | tuple[int, ...] | None = None  # any of these ends a text
    start: int | None = None  # first token of a decoder beside an encoder; None: bos (without: see reads_twice)
    dropout: float = 0.0  # on embeddings, attention weights, feed-forward hidden units and every branch's output
    init_std: float | None = None  # None: Xavier (see model/init.py)

    def __post_init__(self) -> None:
        for problem in problems(self):
            raise ValueError(problem)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """All ids that end a text."""
        return self.eos if isinstance(self.eos, tuple) else () if self.eos is None else (self.eos,)

    @property
    def first(self) -> int | None:
        """The token that a decoder beside an encoder is fed first."""
        return self.bos if self.start is None else self.start

    @property
    def reads_twice(self) -> bool:
        """Whether a decoder beside an encoder reads the same text again, for a head that speaks of that text.

        It begins with the token `first`; where there is none, with the last token of the text.
        """
        return len(self.stacks) == 2 and not isinstance(self.head, Head | None)

    @property
    def stacks(self) -> dict[str, Stack]:
        """The stacks that are there, by name, encoder first."""
        both = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: stack for name, stack in both.items() if stack is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Runs of equal layers are folded: {"times": 6, "layer": {...}}."""
        plain = asdict(self)
        for name in self.stacks:
            runs = [(layer, len(list(run))) for layer, run in groupby(plain[name]["layers"])]
            plain[name]["layers"] = [{"times": times, "layer": layer} for layer, times in runs]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "TransformerConfig":
        """The inverse of `to_dict`. Raises ValueError for an unknown, missing or mistyped field."""
        plain = json.loads(json.dumps(plain))  # a copy that we may unfold
        for name in ("encoder", "decoder"):
            stack: Any = plain.get(name) if isinstance(plain, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
            if isinstance(stack, dict) and isinstance(stack.get("layers"), list):
                stack["layers"] = list(fields.unfolded(stack["layers"], f"config.{name}.layers", "layer"))
        return fields.build(cls, plain, "config")
