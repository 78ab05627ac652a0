"""The scene in a notebook: anywidget carries the questions, where widgets run."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from clearhead.view.page import module
from clearhead.view.scene import Scene

STILL = 256  # tokens up to which a page is made beside the widget


def widget(scene: Scene) -> Any:
    """An `anywidget.AnyWidget` of a scene. Its `state` (see docs/view.md) can be read and set.

    Raises ValueError if anywidget is not installed.
    """
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise ValueError("the widget needs anywidget: pip install 'clearhead[view]'") from error

    class View(anywidget.AnyWidget):  # pyright: ignore[reportUntypedBaseClass]
        """Answers what the page asks."""

        _esm = module()
        state = traitlets.Unicode("").tag(sync=True)

    found = View()
    found.on_msg(Answering(scene))
    return found


class Answering:
    """Carries a message to the scene and its answer back."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene.copy()

    def __call__(self, view: Any, message: Any, buffers: Any) -> None:
        """message: {id, op, args}; the answer: {id, head} and one buffer, or {id, error}."""
        if not isinstance(message, dict) or "op" not in message:
            return
        try:
            head, data = self.scene.ask(str(message["op"]), message.get("args"))
        except ValueError as error:
            view.send({"id": message.get("id"), "error": str(error)})
            return
        view.send({"id": message.get("id"), "head": head}, [data])


def bundle(scene: Scene, text: str, page: Callable[[], str | None]) -> Any:
    """What a notebook is given: text, a page in a frame, and the widget where anywidget is installed.

    Beside the widget the page is for where none runs, such as a saved notebook; of a long text it would take too long.
    """
    plain = {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
    try:
        live = widget(scene)._repr_mimebundle_()
    except ValueError:
        return plain | _page(page)
    data, metadata = live if isinstance(live, tuple) else (live, {})
    short = all(max(len(part.queries), len(part.keys)) <= STILL for part in scene.shown.reading.parts)
    return {**data, **plain, **(_page(page) if short else {})}, metadata


def _page(page: Callable[[], str | None]) -> dict[str, str]:
    found = page()
    return {} if found is None else {"text/html": found}
