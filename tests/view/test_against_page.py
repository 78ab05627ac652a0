"""The page of two looks in a real browser: the numbers are NumPy's, keys do everything, nothing leaves or runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.view.against import Comparison
from clearhead.view.look import Look, look
from clearhead.view.page import AGAINST, SHARED, module
from clearhead.view.pairing import Compared
from clearhead.view.reading import Part
from view.browser import Screen, opened, violations
from view.scenes import translator, weights, writer

A, B = "what one reads is what one is", "what one said is what he is then"
HOSTILE = ["<img src=x onerror=x()>", "</script><script>x()", "<!--<script>", "\u2028\u202egnp.exe", "it"]
SIZES = [(1440, 900), (1024, 768), (390, 844)]
Opener = Callable[..., Screen]


@pytest.fixture(scope="module")
def texts() -> Comparison:
    model = writer()
    return look(model, A).against(look(model, B))


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    """Opens a comparison's page with the network off; at the end nothing was asked for and nothing complained about."""
    with ExitStack() as stack:
        screens: list[Screen] = []

        def opener(found: Comparison, address: str = "", max_mb: float = 10, **settings: Any) -> Screen:
            file = tmp_path / "page.html"
            file.write_text(found.html(max_mb), encoding="utf-8")
            url = file.as_uri() + (f"#{address}" if address else "")
            screens.append(stack.enter_context(opened(browser, url, offline=True, **settings)))
            screens[-1].page.wait_for_selector(".moves, .row p")
            return screens[-1]

        yield opener
        for screen in screens:
            screen.at_rest()
            assert len(screen.requests) == 1


def dense(part: Part, layer: int, head: int) -> np.ndarray:
    return part.layers[layer].dense()[0, head].double().numpy()


def row_of(part: Compared, layer: int, head: int, query: int) -> list[tuple[float | None, float | None]]:
    """The weights of a query's place in a and b, None where a text has no such key."""
    a, b = dense(part.a, layer, head), dense(part.b, *part.partners[layer][head])
    i, j = part.queries[query]
    return [(None if k is None else float(a[i, k]), None if m is None else float(b[j, m])) for k, m in part.keys]


def shown(screen: Screen) -> list[list[str]]:
    rows: list[list[str]] = screen.find(".moves tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return rows


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("≈", "").rstrip("%"))


def test_the_largest_movements_are_numpys(show: Opener, texts: Comparison) -> None:
    query = 20
    screen = show(texts, f"v=1&s=decoder&l=1&h=2&q={query}&k=0")
    row = row_of(texts.parts[0], 1, 2, query)
    order = sorted(range(len(row)), key=lambda k: -abs((row[k][1] or 0) - (row[k][0] or 0)))[:10]
    lines = shown(screen)
    assert len(lines) == 11
    for key, (_, a, b, change) in zip(order, lines, strict=False):
        for text, want in ((a, row[key][0]), (b, row[key][1])):
            assert (text == "–") == (want is None)
            if want is not None and text != "hidden":
                assert number(text) == pytest.approx(100 * want, rel=0.006, abs=0.0006)
        difference = 100 * ((row[key][1] or 0) - (row[key][0] or 0))
        assert number(change) == pytest.approx(difference, abs=0.051)
    moved = 50 * sum(abs((b or 0) - (a or 0)) for a, b in row)
    assert number(screen.find(".row h3").inner_text().split("moved ")[1]) == pytest.approx(moved, rel=0.006)


def test_the_pictures_are_decoded_as_numpy_says(show: Opener, texts: Comparison) -> None:
    """Every cell of the three tables, which are made of what is drawn."""
    screen = show(texts, "v=1&l=0&h=3&q=12&k=12")
    (part,) = texts.parts
    for which, name in enumerate(("Weights of a", "Weights of b", "Difference")):
        summary = screen.find("summary").filter(has_text=name)
        summary.click()
        screen.page.wait_for_selector("details[open] tbody tr")
        cells = screen.find("details[open] tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].slice(1).map(cell => cell.textContent))"
        )
        assert len(cells) == len(cells[0]) == 24
        for query, texts_of_row in enumerate(cells):
            if which == 2 and None in part.queries[query]:
                assert set(texts_of_row) == {"–"}
                continue
            if which < 2 and part.queries[query][which] is None:
                assert set(texts_of_row) == {"–"}
                continue
            view = dense(part.a if which == 0 else part.b, 0, 3)
            for key, text in enumerate(texts_of_row):
                if which == 2:
                    a, b = row_of(part, 0, 3, query)[key]
                    assert text == "–" or number(text) == pytest.approx(100 * ((b or 0) - (a or 0)), abs=0.051)
                elif text not in ("–", "hidden"):
                    want = 100 * view[part.queries[query][which], part.keys[key][which]]
                    assert number(text) == pytest.approx(want, rel=0.006, abs=0.0006)
        summary.click()


def test_the_heads_have_their_distances(show: Opener, texts: Comparison) -> None:
    screen = show(texts)
    for layer, row in enumerate(texts.parts[0].distances):
        for head, distance in enumerate(row):
            cell = screen.find(f'[role=gridcell][aria-label^="Layer {layer} head {head}:"]')
            assert float(cell.inner_text()) == pytest.approx(distance, abs=0.0051)
    best = max((d, i, h) for i, row in enumerate(texts.parts[0].distances) for h, d in enumerate(row))
    screen.says(".head h2", f"Layer {best[1]} · Head {best[2]}")
    screen.find(".most button").nth(1).click()
    assert screen.find("[role=gridcell][aria-selected=true]").get_attribute("aria-label") in (
        screen.find(".most button").nth(1).inner_text()
    )


def test_everything_by_keyboard(show: Opener, texts: Comparison) -> None:
    screen = show(texts, "v=1&l=0&h=0&q=3&k=2")
    keyboard = screen.page.keyboard
    keyboard.press("o")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowRight")
    screen.address_says(l="1", h="1")
    keyboard.press("m")
    keyboard.press("Home")
    for key in ("ArrowRight", "ArrowRight", "PageUp", "PageUp", "PageUp", "PageUp", "ArrowDown"):
        keyboard.press(key)
    screen.address_says(q="1", k="2")
    fields = screen.find(".field")
    assert [fields.nth(i).get_attribute("data-cell") for i in range(3)] == ["1,2"] * 3
    screen.says("[role=status]", "h looks at a: a hidden, b hidden, change –")
    keyboard.press("n")
    screen.says("[role=status]", "moved")
    keyboard.press("d")
    screen.has(".clearhead", "data-theme", "light")
    screen.address_says(t="light")


def test_pointing_shows_exact_numbers(show: Opener, texts: Comparison) -> None:
    screen = show(texts, "v=1&l=1&h=0&q=3&k=2")
    field = screen.find(".field").nth(2)
    field.hover(position={"x": 80, "y": 80})
    query, key = map(int, str(field.get_attribute("data-cell")).split(","))
    assert (query, key) != (3, 2)
    screen.page.mouse.move(5, 5)
    screen.has(".field", "data-cell", "3,2")
    a = dense(texts.parts[0].a, 1, 0)
    assert f"a {100 * a[3, 2]:.1f}% ({a[3, 2]:.6f}" in screen.find(".readout").inner_text()
    screen.find(".line .slot").nth(6).click()
    screen.address_says(q="6")


def test_of_another_model_the_nearest_head_is_named(show: Opener) -> None:
    a, b = ([weights(5, 5, heads) for _ in range(2)] for heads in (2, 3))
    looks = [Look((Part("decoder", HOSTILE, HOSTILE, views),), (), "entropy", 8) for views in (a, b)]
    found = looks[0].against(looks[1])
    screen = show(found, "v=1&l=1&h=0")
    layer, head = found.parts[0].partners[1][0]
    apart = 100 * found.parts[0].distances[1][0]
    cell = screen.find("[role=gridcell][aria-selected=true]")
    said = str(cell.get_attribute("aria-label"))
    assert said.startswith(f"Layer 1 head 0, nearest in b: layer {layer} head {head}: moved {apart:.1f}%")
    screen.says(".head p", f"held against the nearest of b, layer {layer} head {head}.")
    (row,) = [row for row in shown_heads(screen) if row[0] == "L1 H0"]
    assert row[1:] == [f"L{layer} H{head}", f"{apart / 100:.4f}"]


def shown_heads(screen: Screen) -> list[list[str]]:
    screen.find("summary").filter(has_text="Heads as a table").click()
    screen.page.wait_for_selector("details[open] tbody tr")
    rows: list[list[str]] = screen.find("details[open] tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return rows


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show: Opener, scheme: str) -> None:
    both = translator()
    found = look(both, "the <cat>", "die katze").against(look(both, "the dogs", "der hund"))
    screen = show(found, color_scheme=scheme, reduced_motion="reduce")
    assert screen.find(".clearhead").get_attribute("data-theme") == scheme
    for name in ("encoder", "cross"):
        screen.page.get_by_role("button", name=name, exact=True).click()
        for summary in screen.find("summary").all():
            summary.click()
        assert violations(screen) == [], name


def test_nothing_is_wider_than_the_screen(show: Opener, texts: Comparison) -> None:
    screen = show(texts)
    for width, height in SIZES:
        screen.page.set_viewport_size({"width": width, "height": height})
        screen.page.wait_for_timeout(200)
        wide, room = screen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room, width


def recorded(tokens: list[str]) -> Look:
    view = weights(len(tokens), len(tokens))
    return Look((Part("decoder", tokens, tokens, [view]),), (), "entropy", 8)


def test_vis_01_hostile_tokens_are_text(show: Opener) -> None:
    found = recorded(HOSTILE).against(recorded([HOSTILE[1], *HOSTILE[:3], "it"]), (HOSTILE[0], HOSTILE[1]))
    screen = show(found)
    for summary in screen.find("summary").all():
        summary.click()
    inner = "document.querySelector('#clearhead').shadowRoot"
    assert screen.page.evaluate(f"{inner}.querySelectorAll('img, script, iframe').length") == 0
    names = f"[...{inner}.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
    assert screen.page.evaluate(names) == []
    for token in (*HOSTILE[:3], "ᵁ2028ᵁ202egnp.exe"):
        assert token in screen.find(".line").nth(1).inner_text()
    assert HOSTILE[0] in screen.find(".sides").inner_text()


@pytest.mark.parametrize(
    "address",
    ["v=1&s=__proto__&l=-1&h=99999&q=1e9&k=NaN&t=constructor", "v=2&l=1", "%%%&&&===", "v=1&l=99&h=99&q=9999&k=9999"],
)
def test_a_hostile_address_is_a_page(show: Opener, texts: Comparison, address: str) -> None:
    screen = show(texts, address)
    assert screen.find("[role=gridcell][aria-selected=true]").count() == 1
    assert screen.find(".field").first.get_attribute("data-cell")


def test_rounded_numbers_say_so(show: Opener, texts: Comparison) -> None:
    screen = show(texts, "v=1&l=1&h=2&q=20&k=0", max_mb=0.066)
    assert "≈" in screen.find(".notice").inner_text()
    for _, a, b, change in shown(screen):
        assert all(text in ("–", "hidden") or text.startswith(("≈", "<")) for text in (a, b, change))


def test_another_version_is_said(show: Opener, texts: Comparison, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "later.html"
    file.write_text(texts.html().replace('"version": 1', '"version": 2'), encoding="utf-8")
    with opened(browser, file.as_uri()) as screen:
        screen.says("#clearhead", "This page is of another version of clearhead.")


def test_no_markup_from_strings_and_small_sections(texts: Comparison) -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML|DOMParser"
    banned += r"|(?<![\w.-])on(?:click|error|load|input|change|focus|blur|key\w+|pointer\w+|mouse\w+) ?="
    for name in AGAINST:
        text = (files("clearhead.view") / "static" / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250, name
        if name.endswith(".js") and name not in SHARED:
            assert max(map(len, text.splitlines())) <= 120, name
            assert not re.search(banned, text), name
    assert len(module(AGAINST).encode()) <= 60_000
    page = texts.html()
    assert page.count("<script") == page.count("</script>") == 2
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', unescape(page.split("<script")[0]))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    given = json.loads(re.findall(r'id="against">(.*?)</script>', page)[0])
    assert [side["name"] for side in given["sides"]] == [A, B]
