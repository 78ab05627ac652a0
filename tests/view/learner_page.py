"""The learner's page in a real browser: one file, opened from the disk with the network off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from clearhead.view.learner import write
from view.browser import Screen, opened


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("learner") / "lesson.html")


BREAK = """([mistakes, matrix]) => {
  const root = document.querySelector("#clearhead").shadowRoot;
  const text = (selector) => root.querySelector(selector).textContent;
  return mistakes.map((id) => {
    const select = root.querySelector("select"), mask = root.querySelector(".board input[type=checkbox]");
    if (mask?.checked) mask.click();
    select.value = id;
    select.dispatchEvent(new Event("change"));
    const cells = [...root.querySelectorAll(`[data-cell^="${matrix}."]`)];
    return {
      says: text(".says"), verdict: text(".card strong"),
      lines: root.querySelectorAll(".code ins, .code del").length,
      marked: cells.filter((td) => td.classList.contains("wrong")).length,
      cells: cells.map((td) => [td.dataset.cell, td.textContent]),
    };
  });
}"""


class Lesson(Screen):
    """The learner's screen."""

    def cell(self, name: str, i: int, j: int) -> Any:
        return self.page.locator(f'[data-cell="{name}.{i}.{j}"]')

    def matrix(self, name: str) -> list[list[str]]:
        """The printed numbers of a matrix."""
        return rows_of(
            self.page.locator(f'[data-cell^="{name}."]').evaluate_all(
                "found => found.map(td => [td.dataset.cell, td.textContent])"
            )
        )

    def numbers(self, name: str) -> list[list[float]]:
        return as_numbers(self.matrix(name))

    def turn(self, address: str) -> None:
        """Another address of the same page."""
        self.page.evaluate("address => (location.hash = address)", address)
        self.page.wait_for_timeout(50)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def breaks(self, mistakes: list[str], matrix: str) -> list[dict[str, Any]]:
        """What the screen shows of each mistake: words, verdict, lines of code, and a matrix with its marked cells."""
        found: list[dict[str, Any]] = self.page.evaluate(BREAK, [mistakes, matrix])
        return [one | {"rows": rows_of(one["cells"])} for one in found]

    def where(self) -> str:
        """The address behind #, once it is written."""
        self.page.wait_for_timeout(200)
        return self.page.evaluate("location.hash")


def rows_of(cells: list[list[str]]) -> list[list[str]]:
    rows: dict[str, list[str]] = {}
    for key, text in cells:
        rows.setdefault(key.split(".")[1], []).append(text)
    return list(rows.values())


def as_numbers(rows: list[list[str]]) -> list[list[float]]:
    return [[float(text.replace("−", "-").replace("∞", "inf")) for text in row] for row in rows]


Opener = Callable[..., Lesson]


@pytest.fixture
def learner(browser: Any, file: Path) -> Iterator[Opener]:
    """Opens the page at an address; at the end no request has left and nothing was complained about."""
    with ExitStack() as stack:
        screens: list[Lesson] = []

        def opener(address: str = "", size: tuple[int, int] = (1440, 900), **settings: Any) -> Lesson:
            url = file.as_uri() + (f"#{address}" if address else "")
            found = stack.enter_context(opened(browser, url, *size, offline=True, **settings))
            screens.append(Lesson(found.page, found.requests, found.complaints))
            found.page.wait_for_selector("td[data-cell]", state="attached")
            return screens[-1]

        yield opener
        for screen in screens:
            assert screen.complaints == []
            assert [url for url in screen.requests if not url.startswith(file.as_uri())] == []


def in_formulas(page: Any, expression: str, given: Any) -> Any:
    """`expression` of the page's own formulas, with `given` in reach."""
    static = files("clearhead.view") / "static"
    code = "\n".join((static / f"learner-{name}.js").read_text(encoding="utf-8") for name in ("formulas", "mistakes"))
    return page.evaluate(f"given => {{ {code}\nreturn {expression}; }}", json.loads(json.dumps(given)))
