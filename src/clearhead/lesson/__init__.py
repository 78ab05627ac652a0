"""The lesson: one topic, one page of worked numbers.

`attention`, `positions` and `scaling` are NumPy alone; a page is imported when it is asked for, so that torch is too.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from textwrap import fill

from clearhead.lesson.page import Page, Step, to_json
from clearhead.lesson.show import NARROWEST, to_text

__all__ = ["TOPICS", "Page", "Step", "page", "run", "to_json", "to_text"]


def _late(module: str) -> Callable[[], Page]:
    def make() -> Page:
        return import_module(f"clearhead.lesson.{module}").page()

    return make


TOPICS: dict[str, Callable[[], Page]] = {
    "attention": _late("attention"),
    "torch": _late("in_torch"),
    "heads": _late("heads"),
    "order": _late("order"),
    "positions": _late("positions"),
    "mask": _late("mask"),
    "scaling": _late("scaling"),
    "encoder-decoder": _late("encoder_decoder"),
}


def page(topic: str) -> Page:
    """The page of a topic. Raises ValueError, naming the topics and the nearest one, if there is none of that name."""
    if topic not in TOPICS:
        near = [name for name in TOPICS if topic.lower() in name] or get_close_matches(
            topic.lower(), TOPICS, cutoff=0.4
        )
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"topic {topic!r} is unknown; {hint}choose one of {', '.join(TOPICS)}")
    return TOPICS[topic]()


def run(topic: str = "", as_json: bool = False, width: int = 80, colour: bool = False) -> str:
    """What `clearhead lesson` prints: a page as text that ends with the names of the others, or as one JSON document.

    Without a topic, `attention`. width: columns, at least 40. Raises ValueError for an unknown topic.
    """
    topic = topic or "attention"
    chosen = page(topic)
    if as_json:
        return to_json(chosen)
    others = ", ".join(name for name in TOPICS if name != topic)
    closing = fill(f"Other topics: {others}", max(width, NARROWEST), break_on_hyphens=False)
    return f"{to_text(chosen, width, colour)}\n\n{closing}"
