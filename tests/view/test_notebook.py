"""The notebook, once for real: JupyterLab runs a cell, and the widget in its output answers.

pip install jupyterlab ipykernel && pytest -m slow tests/view/test_notebook.py
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clearhead
from view.scenes import writer

pytestmark = pytest.mark.slow
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("anywidget", reason="the widget needs the extra `view`")

PATIENCE = 120_000  # milliseconds
CODE = """import clearhead
model = clearhead.load("model")
found = clearhead.look(model, "what one reads <b>")
found"""


def notebook(*cells: str) -> str:
    shown = [
        {"cell_type": "code", "id": f"c{i}", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for i, source in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": shown, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab over a folder with a model and a notebook of two views."""
    folder = tmp_path_factory.mktemp("lab")
    clearhead.save(writer(), folder / "model")
    (folder / "look.ipynb").write_text(notebook(CODE, "found", "view = found.widget(); view"), encoding="utf-8")
    options = ["--no-browser", "--ip=127.0.0.1", "--port=0", "--ServerApp.token=secret", "--allow-root"]
    options += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    home = {"JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTER_DATA_DIR": str(folder / "data")}
    environment = os.environ | home | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stderr=log, env=environment)
    try:
        yield f"http://127.0.0.1:{_port(folder / 'log')}/lab/tree/look.ipynb?token=secret"
    finally:
        process.terminate()
        process.wait(60)


def _port(log: Path) -> str:
    """Where it listens, once it says so."""
    for _ in range(PATIENCE // 200):
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/lab", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.2)
    raise TimeoutError(log.read_text(encoding="utf-8"))


def test_vis_08_two_views_in_one_notebook_answer(browser: Any, lab: str, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(PATIENCE)
    page.goto(lab)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    views = page.locator(".jp-OutputArea-output .clearhead")
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    for _ in range(8):  # cells that are run before the kernel is there are forgotten, or a dialog says so
        if page.locator(".jp-Dialog .jp-mod-accept").count():
            page.locator(".jp-Dialog .jp-mod-accept").first.click()
        page.locator('[role="menuitem"]:has-text("Run")').first.click()
        page.locator('[data-command="runmenu:run-all"]').first.click()
        page.wait_for_timeout(5000)
        if page.locator(".jp-OutputArea-output").count():
            break
    views.nth(2).wait_for(state="attached")
    for i in (0, 2):
        view = views.nth(i)
        view.scroll_into_view_if_needed()
        view.locator(".readout strong").wait_for()
        view.locator('[role="gridcell"]').nth(3).click()
        view.locator('[role="gridcell"][aria-selected="true"]').nth(0).wait_for()
        assert "Layer 0" in view.inner_text()
        assert "Head 3" in view.inner_text()
    assert "Head 3" not in views.nth(1).inner_text()
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    views.nth(0).locator('[role="gridcell"][aria-selected="true"]').press("a")
    views.nth(0).locator('[role="gridcell"][aria-selected="true"]').press("b")
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert page.locator(".jp-OutputArea-output b").count() == 0
    elsewhere = [url for url in asked if not re.match(r"(https?|wss?)://127\.0\.0\.1|blob:|data:", url)]
    assert elsewhere == []
    page.screenshot(path=tmp_path / "lab.png")
    context.close()
