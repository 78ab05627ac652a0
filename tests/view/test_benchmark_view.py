"""benchmarks/view.py runs at toy size, and what it reports has the promised structure. No timing is asserted."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, under a name of its own: `view` is this folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("benchmarks_view", FOLDER / "view.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "REST", 60)
    monkeypatch.setattr(module, "STILL", 100)
    yield module
    for name in ("browser", "measure"):
        sys.modules.pop(name)


def test_every_interaction_is_timed(browser: Any, script: ModuleType) -> None:
    found = script.clicks(browser, 12, 1)
    assert set(found["milliseconds"]) == set(script.ACTIONS)
    assert all(0 < one["median"] <= one["p95"] for one in found["milliseconds"].values())
    assert found["nodes"] > 300  # 144 of them are heads
    shown = script.said({"module": 1, "saved": [[12, 2, 3]], "clicks": [found], "long": [], "peers": []})
    assert all(name in shown for name in script.ACTIONS)


def test_a_page_is_opened_and_clicked_and_one_that_cannot_be_says_so(
    browser: Any, script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = tmp_path / "clearhead, saved file.html", tmp_path / "BertViz head view.html"
    ours.write_text(script.html(script.recording(12, 2, 2)))
    theirs.write_text("<p>no list of layers")
    page = {"tokens": 12, "bytes": 1, **script.drawn(browser, ours, tmp_path)}
    assert page["opening"] > page["click"] > 0
    monkeypatch.setattr(script, "LIMIT", 2)
    failed = {"tokens": 12, "bytes": 1, **script.drawn(browser, theirs, tmp_path)}
    assert failed["nodes"] == 4
    assert "click" not in failed
    shown = script.said({"module": 1, "saved": [], "clicks": [], "long": [], "peers": [page, failed]})
    assert "BertViz head view, 12 tokens: " in shown
