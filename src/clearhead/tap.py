"""The listener that every formula is given, and the addresses at which it may listen.

A formula that has something to show takes a `tap` and passes each number through it: `q = tap("q", q)`. A layer hands
`tap.at("3")` down, so that the address grows on the way: decoder.3.self.q. The default tap is silent and costs nothing.
Recorders and editors are other taps; the formulas know none of them.
"""

from typing import Any, TypeVar

from clearhead.config import AnyHead, TextClassifier, TextEmbedding, TransformerConfig

T = TypeVar("T")


class Tap:
    """Hears everything, keeps nothing, changes nothing. The base of every other tap."""

    def at(self, name: str) -> "Tap":
        """The tap for the part called `name` below this one."""
        return self

    def __call__(self, site: str, value: T) -> T:
        """What the formula goes on with in place of `value`."""
        return value

    def opens(self) -> bool:
        """Whether somebody will change `scores` or `weights` here, so that they must be computed in the open."""
        return False

    def text(self, stack: str, ids: Any, cache: Any) -> "Tap":
        """The tap for a stack that begins to read: `ids` [B, T], or sound, go on where `cache` ends (None: nowhere)."""
        return self

    def product(self, q: Any, k: Any, v: Any, weigh: Any) -> None:
        """The queries, all keys and all values as they enter the product, and the rule that makes weights of them.

        Called by every attention, on every path: enough to compute any row of weights later with the same formula.
        """


SILENT = Tap()


def sites(config: TransformerConfig) -> tuple[str, ...]:
    """Every address of a model of this shape, in the order in which a forward pass comes by them; nothing runs."""
    found: list[str] = []
    for name, stack in config.stacks.items():
        found.append(f"{name}.embed")
        for i, layer in enumerate(stack.layers):
            parts = ["self"] if layer.cross_attention is None else ["self", "cross"]
            inner = [
                f"{part}.{site}" for part in parts for site in ("q", "k", "v", "scores", "weights", "heads", "out")
            ]
            inner += [] if layer.parallel else ["middle"]
            inner += ["feed_forward.hidden", "feed_forward.out", "residual"]
            found += [f"{name}.{i}.{site}" for site in inner]
        found.append(f"{name}.final")
    return (*found, *_head_sites(config.head))


def _head_sites(head: AnyHead | None) -> tuple[str, ...]:
    if head is None:
        return ()
    if isinstance(head, TextEmbedding):
        return ("pooled", "embedding")
    return ("pooled", "logits") if isinstance(head, TextClassifier) else ("logits",)
