"""The film of a run in a real browser: slider, play, keys, numbers as NumPy has them, nothing leaves or runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.families.store import new_folder, write_json, write_tensors
from clearhead.train.film import write
from clearhead.train.snapshot import SNAPSHOTS, snapshot
from clearhead.view.page import FILM, SHARED, module
from view.browser import Screen, opened, violations
from view.scenes import translator, writer

STEPS = (1, 4, 20, 100)
LOSSES = [3 / (1 + i / 10) for i in range(100)]
PROBES = ["what one reads is what", "a <b> & c"]
HOSTILE = ["<img src=x onerror=x()>", "</script><script>x()", "<!--<script>", "\u2028\u202egnp.exe"]
SIZES = [(1440, 900), (1024, 768), (390, 844)]
Opener = Callable[..., Screen]
Shots = dict[int, Any]


def shots_of(make: Any, probes: list[str]) -> Shots:
    found: Shots = {}
    for step in STEPS:
        model = make()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5 + step / 50)
        found[step] = snapshot(model, probes)
    return found


@pytest.fixture(scope="module")
def shots() -> Shots:
    return shots_of(writer, PROBES)


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    """Opens the film of some snapshots with the network off; at the end nothing was asked for or complained about."""
    with ExitStack() as stack:
        screens: list[Screen] = []

        def opener(shots: Shots, address: str = "", max_mb: float = 10, **settings: Any) -> Screen:
            run = tmp_path / f"run <b>{len(screens)}"
            run.mkdir()
            for step, (tensors, texts) in shots.items():
                with new_folder(run / SNAPSHOTS / f"{step:08}") as fresh:
                    write_tensors(fresh / "heads.safetensors", tensors)
                    write_json(fresh / "texts.json", {"step": step, "texts": texts})
            lines = [json.dumps({"step": i + 1, "loss": loss}) + "\n" for i, loss in enumerate(LOSSES)]
            (run / "log.jsonl").write_text("".join(lines), encoding="utf-8")
            url = write(run, max_mb=max_mb).as_uri() + (f"#{address}" if address else "")
            screens.append(stack.enter_context(opened(browser, url, offline=True, **settings)))
            screens[-1].page.wait_for_selector(".chart")
            return screens[-1]

        yield opener
        for screen in screens:
            screen.at_rest()
            assert len(screen.requests) == 1


def table(screen: Screen, name: str) -> list[list[str]]:
    """The cells of the table behind a summary, without the first of each row."""
    summary = screen.find("summary").filter(has_text=name)
    summary.click()
    screen.page.wait_for_selector("details[open] tbody tr")
    cells: list[list[str]] = screen.find("details[open] tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent))"
    )
    summary.click()
    return cells


def test_the_weights_of_each_step_are_the_snapshots(show: Opener, shots: Shots) -> None:
    screen = show(shots, "v=1&x=0&i=1&l=1&h=2&q=5&k=3")
    for place, step in enumerate(STEPS):
        screen.find(".slider").fill(str(place))
        screen.says(".head h2", f"Layer 1 · Head 2 at step {step}")
        want = shots[step][0]["0.decoder.1.self.weights"][2].numpy()
        for row, texts in zip(want, table(screen, "This head"), strict=True):
            assert [text == "hidden" for text in texts] == (row < 0).tolist()
            for text, p in zip(texts, row, strict=True):
                if p >= 0 and not text.startswith("<"):
                    assert float(text.rstrip("%")) == pytest.approx(100 * p, rel=0.006, abs=0.0006)
        screen.says(".readout", f"({want[5, 3]:.6f}"[:8])


def test_the_curves_are_the_means_of_the_statistics(show: Opener, shots: Shots) -> None:
    screen = show(shots, "v=1&x=0&i=100&l=0&h=1&o=previous")
    rows = table(screen, "The curves")
    for (shown, loss, _), step in zip(rows, STEPS, strict=True):
        weights = shots[step][0]["0.decoder.0.self.weights"][1].double().numpy()
        want = np.mean(np.diagonal(weights, -1))  # of the first query there is no previous token
        assert float(shown.rstrip("%")) == pytest.approx(100 * want, rel=0.006)
        assert float(loss) == pytest.approx(LOSSES[step - 1], abs=1e-4)
    screen.page.get_by_label("Statistic").select_option("entropy")
    for (shown, _, _), step in zip(table(screen, "The curves"), STEPS, strict=True):
        want = float(shots[step][0]["0.decoder.0.self.entropy"][1].mean())
        assert shown == f"{want:.2f} bits"
    assert screen.find(".chart polyline").count() == 8 + 1  # all heads, and the loss
    screen.address_says(o="entropy")


def test_a_click_on_the_curves_goes_to_the_step(show: Opener, shots: Shots) -> None:
    screen = show(shots, "v=1&i=100")
    screen.find(".chart").click(position={"x": 50, "y": 60})
    screen.says("output", "step 1 of 100")
    screen.address_says(i="1")


def test_everything_by_keyboard(show: Opener, shots: Shots) -> None:
    screen = show(shots, "v=1&x=0&i=1&l=0&h=0&q=4&k=1")
    keyboard = screen.page.keyboard
    keyboard.press("]")
    screen.says("output", "step 4 of 100")
    screen.find(".slider").focus()
    keyboard.press("ArrowRight")
    screen.says("output", "step 20 of 100")
    screen.has(".slider", "aria-valuetext", "step 20, 3 of 4")
    screen.says("[role=status]", "Step 20. Layer 0 head 0: ")
    keyboard.press("o")
    keyboard.press("ArrowDown")
    keyboard.press("End")
    screen.address_says(l="1", h="3", i="20")
    keyboard.press("m")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowRight")
    screen.address_says(q="5", k="2")
    screen.says("[role=status]", "o looks at a: ")
    keyboard.press("d")
    screen.has(".clearhead", "data-theme", "light")


def test_it_plays_and_stops(show: Opener, shots: Shots) -> None:
    screen = show(shots)
    screen.says("output", "step 100 of 100")
    play = screen.find(".play")
    assert play.inner_text() == "Play"
    play.click()
    assert play.inner_text() == "Pause"
    screen.says("output", "step 4 of 100")  # from the beginning
    screen.page.keyboard.press("p")
    assert play.inner_text() == "Play"
    screen.page.keyboard.press("p")
    screen.says("output", "step 100 of 100")
    screen.says(".play", "Play")


def test_with_reduced_motion_nothing_moves_by_itself(show: Opener, shots: Shots) -> None:
    screen = show(shots, "v=1&i=4", reduced_motion="reduce")
    assert screen.find(".play").inner_text() == "Next"
    screen.find(".play").click()
    screen.says("output", "step 20 of 100")
    screen.page.wait_for_timeout(900)
    assert screen.find("output").inner_text() == "step 20 of 100"


def test_pointing_shows_the_exact_weight(show: Opener, shots: Shots) -> None:
    screen = show(shots, "v=1&x=0&i=20&l=1&h=0&q=9&k=2")
    field = screen.find(".field")
    field.hover(position={"x": 90, "y": 200})
    query, key = map(int, str(field.get_attribute("data-cell")).split(","))
    p = float(shots[20][0]["0.decoder.1.self.weights"][0, query, key])
    shown = re.findall(r"\(([\d.e-]+)\)", screen.find(".readout").inner_text())
    assert (p < 0 and not shown) or float(shown[0]) == pytest.approx(p, rel=1e-5)
    screen.page.mouse.move(3, 3)
    screen.has(".field", "data-cell", "9,2")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show: Opener, scheme: str) -> None:
    screen = show(shots_of(translator, ["the cat", "dogs"]), color_scheme=scheme)
    assert screen.find(".clearhead").get_attribute("data-theme") == scheme
    for name in ("encoder", "cross"):
        screen.page.get_by_role("button", name=name, exact=True).click()
        for summary in screen.find("summary").all():
            summary.click()
        assert violations(screen) == [], name
    screen.page.get_by_label("Sentence").select_option("1")
    screen.address_says(x="1", s="cross")


def test_nothing_is_wider_than_the_screen(show: Opener, shots: Shots) -> None:
    screen = show(shots)
    for width, height in SIZES:
        screen.page.set_viewport_size({"width": width, "height": height})
        screen.page.wait_for_timeout(200)
        wide, room = screen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room, width


def test_vis_01_hostile_tokens_are_text(show: Opener) -> None:
    def evil(said: dict[str, Any]) -> dict[str, Any]:
        tokens = [*HOSTILE, *said["tokens"]["decoder"]][: len(said["tokens"]["decoder"])]
        return {**said, "text": HOSTILE[1], "tokens": {"decoder": tokens}}

    shots = {
        step: (tensors, [evil(one) for one in texts]) for step, (tensors, texts) in shots_of(writer, PROBES).items()
    }
    screen = show(shots, "v=1&x=0&q=1&k=0")
    cells = table(screen, "This head")
    assert len(cells) == len(PROBES[0])
    inner = "document.querySelector('#clearhead').shadowRoot"
    assert screen.page.evaluate(f"{inner}.querySelectorAll('img, script, iframe').length") == 0
    names = f"[...{inner}.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
    assert screen.page.evaluate(names) == []
    assert f"{HOSTILE[1]} at 1 looks at {HOSTILE[0]}" in screen.find(".readout").inner_text()
    assert screen.find("h1").inner_text() == "Heads of run <b>0 over training"


@pytest.mark.parametrize(
    "address", ["v=1&s=__proto__&x=9&i=1e9&l=-1&h=99999&q=NaN&o=constructor&t=x", "v=2&l=1", "%%%&&&===", "v=1&l=99"]
)
def test_a_hostile_address_is_a_film(show: Opener, shots: Shots, address: str) -> None:
    screen = show(shots, address)
    assert screen.find("[role=gridcell][aria-selected=true]").count() == 1
    assert screen.find(".field").get_attribute("data-cell")


def test_rounded_numbers_say_so(show: Opener, shots: Shots) -> None:
    screen = show(shots, max_mb=0.08)
    assert "≈" in screen.find(".notice").inner_text()
    assert "≈" in screen.find(".readout").inner_text()


def test_no_markup_from_strings_and_small_sections() -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML|DOMParser"
    banned += r"|(?<![\w.-])on(?:click|error|load|input|change|focus|blur|key\w+|pointer\w+|mouse\w+) ?="
    for name in FILM:
        text = (files("clearhead.view") / "static" / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250, name
        if name.endswith(".js") and name not in SHARED:
            assert max(map(len, text.splitlines())) <= 120, name
            assert not re.search(banned, text), name
    assert len(module(FILM).encode()) <= 60_000
