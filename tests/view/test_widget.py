"""The notebook: questions and answers as messages, several widgets beside each other, and a page where none runs."""

import sys
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

from clearhead.view.look import look
from clearhead.view.page import module
from clearhead.view.widget import Answering, bundle, widget
from view.scenes import floats, scene_of, writer

WIDGET = "application/vnd.jupyter.widget-view+json"


class Sent:
    """A widget that only keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], Any]] = []

    def send(self, message: dict[str, Any], buffers: Any = None) -> None:
        self.messages.append((message, buffers))


def test_a_message_is_answered_by_the_scene() -> None:
    scene, view = scene_of(writer(), "abc"), Sent()
    answer = Answering(scene)
    answer(view, {"id": "x:1", "op": "row", "args": {"stack": "decoder", "layer": 0, "head": 1, "query": 2}}, [])
    answer(view, {"id": "x:2", "op": "meta"}, [])
    answer(view, {"id": "x:3", "op": "row", "args": {"stack": "decoder", "layer": 7}}, [])
    answer(view, {"id": "x:4", "op": "film", "args": None}, [])
    answer(view, {"id": "x:2", "cancel": True}, [])
    (row, (data,)), (meta, _), (bad, none), (film, _) = view.messages
    assert floats(data).sum() == pytest.approx(1)
    assert row["id"] == "x:1"
    assert meta["head"]["tokens"]["decoder"] == list("abc")
    assert bad == {"id": "x:3", "error": "layer is 7, but there are 2 layers, 0 to 1"}
    assert none is None
    assert "question is 'film'" in film["error"]


@pytest.mark.parametrize("args", ["no object", [1], 3])
def test_arguments_that_are_no_object_are_refused(args: object) -> None:
    view = Sent()
    Answering(scene_of(writer(), "abc"))(view, {"id": 1, "op": "meta", "args": args}, [])
    ((message, _),) = view.messages
    assert "give an object of arguments" in message["error"]


def test_vis_08_two_widgets_are_independent_and_live() -> None:
    scene = scene_of(writer(), "abc")
    one, two = Answering(scene), Answering(scene)
    first, second = Sent(), Sent()
    one(first, {"id": 1, "op": "look", "args": {"text": "defg"}}, [])
    two(second, {"id": 1, "op": "meta"}, [])
    assert first.messages[0][0]["head"]["tokens"]["decoder"] == list("defg")
    assert second.messages[0][0]["head"]["tokens"]["decoder"] == list("abc")


def test_the_widget_holds_the_module_and_a_state() -> None:
    pytest.importorskip("anywidget", reason="the widget needs the extra `view`")
    found = widget(scene_of(writer(), "abc"))
    assert found._esm == module()
    found.state = "v=1&l=1"
    assert found.get_state()["state"] == "v=1&l=1"
    assert found.model_id != widget(scene_of(writer(), "abc")).model_id


def test_what_a_notebook_is_given() -> None:
    pytest.importorskip("anywidget", reason="the widget needs the extra `view`")
    found = look(writer(), "abc")
    data, _ = DisplayFormatter().format(found)
    assert data[WIDGET]["model_id"]
    assert data["text/html"].startswith("<iframe srcdoc=")
    assert data["text/plain"] == repr(found)
    assert found.widget().model_id


def test_without_anywidget_there_is_still_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    found = look(writer(), "abc")
    with pytest.raises(ValueError, match=r"needs anywidget: pip install 'clearhead\[view\]'"):
        found.widget()
    data, _ = DisplayFormatter().format(found)
    assert WIDGET not in data
    assert data["text/html"].startswith("<iframe srcdoc=")


def test_of_a_long_text_the_widget_stands_beside_text_only() -> None:
    pytest.importorskip("anywidget", reason="the widget needs the extra `view`")
    found = look(writer(), "<b>" * 100)
    data, _ = DisplayFormatter().format(found)
    assert data[WIDGET]["model_id"]
    assert data["text/html"].startswith("<pre>\ndecoder: entropy")
    assert "<b>" not in data["text/html"]


def test_a_page_that_would_be_too_large_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    found = bundle(scene_of(writer(), "abc"), "a <table>", lambda: None)
    assert found == {"text/plain": "a <table>", "text/html": "<pre>a &lt;table&gt;</pre>"}
