"""What a click costs in the researcher's screen: the browser's processor time, which a busy machine hits less.

python benchmarks/view.py --tokens 512 4096 --long 32768
python benchmarks/view.py --tokens --long --peers PYTHON --cdn FOLDER --peer-tokens 64 128

Recordings of random queries and keys, 12 layers of 12 heads, served from this process; the browser's main thread is
timed by Chromium's own counter (`Performance`, threadTicks). PYTHON: an interpreter that has bertviz and circuitsvis
installed; they are given the same size of input, in pages of their own. BertViz fetches its libraries from a network;
they are answered from FOLDER (jquery 2, require.js 2.3.6, d3 5.7). A page that has not come to rest after LIMIT seconds
is given up, and so is one that its browser does.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from playwright.sync_api import Error

from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.lens.rows import Weights
from clearhead.view.html import html
from clearhead.view.page import module
from clearhead.view.reading import Part, Reading
from clearhead.view.scene import Scene
from measure import save, table


def of_the_tests() -> ModuleType:
    """tests/view/browser.py; a folder of the name of this file cannot be imported here."""
    spec = importlib.util.spec_from_file_location("browser", Path(__file__).parent.parent / "tests/view/browser.py")
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules["browser"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


tests = of_the_tests()
launched, opened, served = tests.launched, tests.opened, tests.served

WIDTH = 64  # of a head
LIMIT = 1200  # seconds that a peer's page may take to open, or to answer a click
STILL = 1000  # milliseconds in which a page that has come to rest does next to nothing
REST = 400  # milliseconds after an interaction, for what it asked for to come and be drawn

ACTIONS: dict[str, Callable[[Any, int], None]] = {
    "another head": lambda screen, i: press(screen, "o", "ArrowRight" if i % 2 else "ArrowDown"),
    "another query": lambda screen, i: press(screen, "m", "ArrowUp"),
    "another key": lambda screen, i: press(screen, "m", "ArrowLeft"),
    "colour scale": lambda screen, i: press(screen, "s"),
    "light or dark": lambda screen, i: press(screen, "d"),
    "pointing": lambda screen, i: screen.page.mouse.move(700 + 7 * (i % 9), 400 + 5 * (i % 7)),
}


def recording(tokens: int, layers: int, heads: int, causal: bool = True) -> Scene:
    """A finished recording of random numbers, scores of a standard deviation of 2: no model behind it."""
    torch.manual_seed(0)
    scoring = Scoring(Visible.last(tokens, tokens, causal=causal), WIDTH**-0.5)
    names = [f" word{i % 1000}" for i in range(tokens)]
    views = [
        Weights(2 * torch.randn(1, heads, tokens, WIDTH), torch.randn(1, heads, tokens, WIDTH), scoring)
        for _ in range(layers)
    ]
    ids = torch.arange(tokens) % 1000
    part = Part("decoder" if causal else "encoder", names, names, views, ids)
    return Scene(Reading.of([part]), None, f"{tokens:,} tokens")


def press(screen: Any, *keys: str) -> None:
    for key in keys:
        screen.page.keyboard.press(key)


class Counter:
    """Processor milliseconds of the page's main thread."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def now(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def interactions(screen: Any, rounds: int) -> dict[str, list[float]]:
    """Of each action, `rounds` times after two untimed ones."""
    counter = Counter(screen.page)
    found: dict[str, list[float]] = {}
    for name, act in ACTIONS.items():
        taken: list[float] = []
        for i in range(rounds + 2):
            before = counter.now()
            act(screen, i)
            screen.page.wait_for_timeout(REST)
            taken.append(counter.now() - before)
        found[name] = taken[2:]
    return found


def clicks(browser: Any, tokens: int, rounds: int) -> dict[str, Any]:
    with served(recording(tokens, 12, 12)) as address, opened(browser, address) as screen:
        started = time.perf_counter()
        screen.settle()
        opening = time.perf_counter() - started
        screen.page.wait_for_function(DONE, timeout=600_000)
        counter = {name: summary(taken) for name, taken in interactions(screen, rounds).items()}
        nodes = screen.page.evaluate("document.querySelector('#clearhead').shadowRoot.querySelectorAll('*').length")
        return {"tokens": tokens, "opening": opening, "nodes": nodes, "milliseconds": counter}


ROOT = "document.querySelector('#clearhead').shadowRoot"
DONE = f"() => {ROOT}.querySelector('.sentence strong') && {ROOT}.querySelector('progress').hidden"


def summary(taken: list[float]) -> dict[str, float]:
    return {"median": statistics.median(taken), "p95": sorted(taken)[int(0.95 * (len(taken) - 1))]}


def long(browser: Any, tokens: int) -> dict[str, Any]:
    """A recording whose pictures are sampled first: how long until it stands, and until a row is there."""
    with served(recording(tokens, 4, 4)) as address:
        started, worked = time.perf_counter(), time.process_time()
        with opened(browser, address) as screen:
            screen.page.wait_for_selector(".readout strong", timeout=600_000)
            opening = {"wall": time.perf_counter() - started, "server": time.process_time() - worked}
            screen.settle()
            screen.page.keyboard.press("m")
            counter = Counter(screen.page)
            rows: dict[str, list[float]] = {"wall": [], "page": []}
            for _ in range(12):
                chosen = int(screen.page.locator(".field").get_attribute("data-cell").split(",")[0])
                started, worked = time.perf_counter(), counter.now()
                screen.page.keyboard.press("ArrowUp")
                screen.page.wait_for_function(f"(q) => {ROW} === q", arg=f"row {chosen - 1}", polling=5)
                rows["wall"].append(1000 * (time.perf_counter() - started))
                rows["page"].append(counter.now() - worked)
                screen.page.wait_for_timeout(300)
            return {"tokens": tokens, "opening": opening, **{name: summary(taken) for name, taken in rows.items()}}


ROW = f"'row ' + {ROOT}.querySelector('.bars').dataset.query"


def peers(browser: Any, python: str, cdn: Path, tokens: int) -> list[dict[str, Any]]:
    """Our saved file, and pages of BertViz and CircuitsVis, for the same size of input."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-c", PEERS, folder, str(tokens)], check=True, capture_output=True)
        (Path(folder) / "clearhead, saved file.html").write_text(html(recording(tokens, 12, 12)))
        pages = sorted(Path(folder).iterdir())
        return [{"tokens": tokens, "bytes": page.stat().st_size, **drawn(browser, page, cdn)} for page in pages]


def drawn(browser: Any, file: Path, cdn: Path) -> dict[str, Any]:
    """A peer's page, opened, and its own way to another head or layer. Its libraries are answered from `cdn`."""

    def answer(route: Any) -> None:
        name = next((name for name in LIBRARIES if name in route.request.url), None)
        body = (cdn / LIBRARIES[name]).read_text() if name else ""
        allowed = {"access-control-allow-origin": "*"}
        route.fulfill(body=body, content_type="text/javascript", headers=allowed)

    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(1000 * LIMIT)
    page.route(lambda url: url.startswith("http"), answer)
    found: dict[str, Any] = {"name": file.stem}
    clicked: list[float] = []
    try:
        counter = Counter(page)
        page.goto(file.as_uri())
        found["opening"] = resting(page, counter, 0.0)
        found["nodes"] = page.evaluate(NODES)
        for i in range(4):
            before = counter.now()
            PEER_ACTIONS[file.stem](page, i)
            clicked.append(resting(page, counter, before))
        found["click"] = statistics.median(clicked)
        page.close()
    except (TimeoutError, Error) as error:
        found["failed"] = str(error).splitlines()[0]
    return found


def resting(page: Any, counter: Counter, before: float) -> float:
    """Milliseconds since `before`, once frames are drawn and the main thread then does next to nothing for a while."""
    end = time.monotonic() + LIMIT
    while True:
        now = counter.now()
        page.evaluate(IDLE)
        page.wait_for_timeout(STILL)
        if counter.now() - now < 20:
            return counter.now() - before
        if time.monotonic() > end:
            raise TimeoutError(f"not at rest after {LIMIT} s")


IDLE = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(done))))"
NODES = """[document, ...[...document.querySelectorAll('*')].map((one) => one.shadowRoot)]
  .reduce((sum, root) => sum + (root ? root.querySelectorAll('*').length : 0), 0)"""
DIRECTIONS = ("Right", "Down", "Right", "Down")
LIBRARIES = {"jquery": "jquery.min.js", "require": "require.min.js", "d3": "d3.min.js"}
PEER_ACTIONS: dict[str, Callable[[Any, int], Any]] = {
    "clearhead, saved file": lambda page, i: [page.keyboard.press(key) for key in ("o", f"Arrow{DIRECTIONS[i % 4]}")],
    "BertViz head view": lambda page, i: page.select_option("select#layer", str(i + 1)),
    "BertViz model view": lambda page, i: page.mouse.click(200 + 60 * i, 120),
    "CircuitsVis, one layer": lambda page, i: page.mouse.click(60 + 90 * i, 90),
}
PEERS = """
import sys
from pathlib import Path
import torch
folder, n = Path(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
tokens = [f"word{i % 1000}" for i in range(n)]
scores = torch.randn(12, 1, 12, n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -1e9)
attention = list(scores.softmax(-1))
from bertviz import head_view, model_view
for name, view in (("BertViz head view", head_view), ("BertViz model view", model_view)):
    (folder / f"{name}.html").write_text(view(attention, tokens, html_action="return").data)
from circuitsvis.attention import attention_heads
(folder / "CircuitsVis, one layer.html").write_text(attention_heads(attention=attention[0][0], tokens=tokens).local_src)
"""


def said(found: dict[str, Any]) -> str:
    """The result as Markdown."""
    sizes = [[f"{number:,}" for number in sizes] for sizes in found["saved"]]
    clicked, lines = found["clicks"], [f"module {found['module']:,} bytes"]
    lines.append(table(["saved file, tokens", "causal", "every key visible"], sizes) if sizes else "")
    header = ["milliseconds of the main thread", *(f"{one['tokens']:,} tokens" for one in clicked)]
    rows = [[name, *(middle(one["milliseconds"][name]) for one in clicked)] for name in ACTIONS]
    lines.append(table(header, rows) if clicked else "")
    lines += [f"{one['tokens']:,} tokens: opens in {one['opening']:.1f} s, {one['nodes']:,} nodes" for one in clicked]
    for one in found["long"]:
        opening = f"{one['opening']['wall']:.1f} s ({one['opening']['server']:.1f} s of the server's processor)"
        row = f"{middle(one['wall'])} ms ({middle(one['page'])} ms of the page's processor)"
        lines.append(f"{one['tokens']:,} tokens: opens in {opening}, a row in {row}")
    if found["peers"]:
        lines.append(
            table(
                ["page", "tokens", "bytes", "nodes", "ms to open", "ms of a click"],
                [row_of(page) for page in found["peers"]],
            )
        )
        lines += [
            f"{page['name']}, {page['tokens']} tokens: {page['failed']}" for page in found["peers"] if "failed" in page
        ]
    return "\n".join(lines)


def row_of(page: dict[str, Any]) -> list[str]:
    numbers = (f"{page[name]:,.0f}" if name in page else "–" for name in ("bytes", "nodes", "opening", "click"))
    return [page["name"], str(page["tokens"]), *numbers]


def middle(times: dict[str, float]) -> str:
    """Median / 95th percentile."""
    return f"{times['median']:.0f} / {times['p95']:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="*", default=[512, 4096])
    parser.add_argument("--long", type=int, nargs="*", default=[32768])
    parser.add_argument("--saved", type=int, nargs="*", default=[64, 128, 256])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", default=sys.executable, help="an interpreter with bertviz and circuitsvis")
    parser.add_argument("--cdn", type=Path, default=Path(), help="a folder with jquery, require and d3 (.min.js)")
    parser.add_argument("--peer-tokens", type=int, nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"module": len(module().encode())}
    found["saved"] = [
        [size, *(len(html(recording(size, 12, 12, causal)).encode()) for causal in (True, False))]
        for size in asked.saved
    ]
    with launched() as browser:
        found["clicks"] = [clicks(browser, tokens, asked.rounds) for tokens in asked.tokens]
        found["long"] = [long(browser, tokens) for tokens in asked.long]
        found["peers"] = [page for size in asked.peer_tokens for page in peers(browser, asked.peers, asked.cdn, size)]
    print(said(found))
    save(asked.json, found)


if __name__ == "__main__":
    main()
