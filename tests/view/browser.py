"""A real browser for the tests of the pages: one process, a fresh context for every page, and what the page did."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from clearhead.view.html import html
from clearhead.view.page import module
from clearhead.view.scene import Scene
from clearhead.view.serve import Server, listen

CHROMIUM = shutil.which("chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]
PATIENCE = 20_000  # milliseconds, on a busy machine


@contextmanager
def launched() -> Iterator[Any]:
    """Debian's Chromium. Skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are tested with Playwright for Python")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@dataclass
class Screen:
    """A page, what it asked for and what it complained about."""

    page: Any
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    def find(self, selector: str) -> Any:
        return self.page.locator(selector)

    def says(self, selector: str, words: str) -> None:
        """Waits until an element's text contains the words."""
        from playwright.sync_api import expect

        expect(self.find(selector).first).to_contain_text(words, timeout=PATIENCE)

    def has(self, selector: str, name: str, value: str) -> None:
        """Waits until an attribute has a value."""
        from playwright.sync_api import expect

        expect(self.find(selector).first).to_have_attribute(name, value, timeout=PATIENCE)

    def settle(self) -> None:
        """Waits until the chosen cell has been drawn and said."""
        self.page.wait_for_selector(".readout strong", timeout=PATIENCE)
        self.page.wait_for_selector('[role="gridcell"][aria-selected="true"]', timeout=PATIENCE)
        self.page.wait_for_function(
            "() => document.querySelector('#clearhead').shadowRoot.querySelector('[role=status].unseen').textContent",
            timeout=PATIENCE,
        )

    def state(self) -> dict[str, str]:
        """What the address says."""
        pairs = self.page.evaluate("location.hash.slice(1)").split("&")
        return dict(pair.split("=") for pair in pairs if pair)

    def address_says(self, **wanted: str) -> None:
        """Waits until the address names these."""
        end = time.monotonic() + PATIENCE / 1000
        while not wanted.items() <= self.state().items():
            assert time.monotonic() < end, (self.state(), wanted)
            self.page.wait_for_timeout(50)

    def at_rest(self) -> None:
        """Nothing went wrong, nothing was fetched but from here."""
        assert self.complaints == []
        assert [
            url for url in self.requests if not url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:"))
        ] == []


@contextmanager
def opened(browser: Any, url: str, width: int = 1440, height: int = 900, **settings: Any) -> Iterator[Screen]:
    """A page in a context of its own."""
    context = browser.new_context(viewport={"width": width, "height": height}, **settings)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    screen = Screen(page)
    page.on("request", lambda request: screen.requests.append(request.url))
    page.on("console", lambda message: screen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: screen.complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (screen.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    try:
        page.goto(url)
        yield screen
    finally:
        context.close()


@contextmanager
def served(scene: Scene) -> Iterator[str]:
    """The address of a server of the scene, which runs in a thread."""
    listening = listen("127.0.0.1", 0)
    server = Server(scene, "127.0.0.1", listening.getsockname()[1])
    running = uvicorn.Server(
        uvicorn.Config(server.app, log_level="warning", access_log=False, lifespan="off", ws="none")
    )
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.closing.set()
        running.should_exit = True
        thread.join(10)
        listening.close()


def saved(scene: Scene, path: Path, **asked: Any) -> str:
    """The address of a saved page."""
    path.write_text(html(scene, **asked), encoding="utf-8")
    return path.as_uri()


@contextmanager
def sections(browser: Any) -> Iterator[Any]:
    """An empty page in which the functions of the module can be called by name."""
    page = browser.new_page()
    page.add_script_tag(content=module().split("export default")[0])
    try:
        yield page
    finally:
        page.close()


def violations(screen: Screen) -> list[str]:
    """What axe finds, shadow roots included."""
    from axe_playwright_python.sync_playwright import Axe

    found = json.loads(json.dumps(Axe().run(screen.page).response))["violations"]
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:300]}" for one in found for node in one["nodes"]
    ]
