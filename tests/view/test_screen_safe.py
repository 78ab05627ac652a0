"""The researcher's screen with hostile texts, names and addresses: all is shown, nothing runs, nothing is fetched."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from clearhead.view.page import SCREEN, module
from clearhead.view.reading import Part, Reading
from clearhead.view.scene import Scene
from view.browser import Screen, opened, saved, sections, served
from view.scenes import weights

HOSTILE = [
    "a<b<c",
    "<img src=x onerror=window.RAN=1>",
    "</script><script>window.RAN=1</script>",
    "<!--<script>",
    "${window.RAN=1}",
    "`${window.RAN=1}`",
    "\u2028\u2029",
    "\u202eevil\u202c",
    "' onmouseover='window.RAN=1",
    '" autofocus onfocus="window.RAN=1',
    "javascript:window.RAN=1",
    "&lt;b&gt;",
    "",
    " \t\r\n",
    "⟨F0 9F⟩",
    "⟨99 82⟩",
    "\u200bזה",
    "𝔸\u0000\x1b[31m",
]
TITLE = "</title><script>window.RAN=1</script>../../'\"><b>"


@pytest.fixture(scope="module")
def scene() -> Scene:
    views = [weights(len(HOSTILE), len(HOSTILE)) for _ in range(2)]
    return Scene(Reading.of([Part("decoder", HOSTILE, HOSTILE, views, torch.arange(len(HOSTILE)))]), None, TITLE)


@pytest.fixture(scope="module", params=["served", "saved"])
def address(request: pytest.FixtureRequest, scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "saved":
        yield saved(scene, tmp_path_factory.mktemp("hostile") / "<img src=x onerror=RAN=1>.html")
        return
    with served(scene) as found:
        yield found


@pytest.fixture
def screen(browser: Any, address: str) -> Iterator[Screen]:
    with opened(browser, address, accept_downloads=True) as found:
        found.settle()
        yield found
        assert found.page.evaluate("window.RAN") is None
        found.at_rest()


ELEMENTS = """() => {
  const found = {tags: new Set(), handlers: []};
  const walk = (node) => {
    for (const one of node.querySelectorAll('*')) {
      found.tags.add(one.tagName.toLowerCase());
      for (const {name} of one.attributes) if (/^on/i.test(name)) found.handlers.push(name);
    }
  };
  walk(document.querySelector('#clearhead').shadowRoot);
  return {tags: [...found.tags], handlers: found.handlers};
}"""
OURS = {
    "div",
    "header",
    "svg",
    "rect",
    "h1",
    "h2",
    "span",
    "button",
    "input",
    "select",
    "option",
    "p",
    "main",
    "section",
}
OURS |= {"canvas", "progress", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "bdi"}
OURS |= {"section", "textarea", "dialog", "kbd", "strong", "br"}


def test_vis_01_hostile_tokens_are_shown_and_nothing_runs(screen: Screen) -> None:
    for summary in screen.find("details.behind summary").all():
        summary.click()
    found = screen.page.evaluate(ELEMENTS)
    assert found["handlers"] == []
    assert set(found["tags"]) <= OURS
    shown = screen.find('.flow [role="option"]').all_text_contents()
    assert len(shown) == len(HOSTILE)
    assert {*HOSTILE[:6], "&lt;b&gt;"} <= set(shown)
    assert "ᵁ2028ᵁ2029" in shown
    assert "ᵁ202eevilᵁ202c" in shown
    assert shown[HOSTILE.index("⟨F0 9F⟩")] == "🙂"
    screen.says(".what", "</title><script>window.RAN=1</script>")


def test_vis_01_hostile_tokens_in_a_figure(screen: Screen, tmp_path: Path) -> None:
    with screen.page.expect_download() as waiting:
        screen.find("text=SVG").click()
    name = waiting.value.suggested_filename
    assert re.fullmatch(r"[A-Za-z0-9._-]+\.svg", name)
    waiting.value.save_as(tmp_path / "figure.svg")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    tags = {element.tag.split("}")[1] for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "rect", "line", "text", "circle"}
    assert not [key for element in root.iter() for key in element.attrib if key.lower().startswith("on")]
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "a<b<c" in texts
    assert any(text and text.startswith("<img src=x") for text in texts)


def test_figures_in_pixels(screen: Screen, tmp_path: Path) -> None:
    with screen.page.expect_download() as waiting:
        screen.find("text=PNG").click()
    waiting.value.save_as(tmp_path / "figure.png")
    data = (tmp_path / "figure.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 2 * 640


@pytest.mark.parametrize(
    "hash",
    [
        "c=__proto__&t=constructor&s=toString",
        "s=decoder&l=99999999&h=-1&q=1e9&k=NaN&c=log",
        "v=2&l=1",
        "o=<img src=x onerror=window.RAN=1>&ab=d0.0z,%00,../..&x=7",
        "%E0%A4%A&=&&&q=%",
        "l=" + "9" * 5000,
    ],
)
def test_hostile_addresses(browser: Any, scene: Scene, tmp_path: Path, hash: str) -> None:
    with opened(browser, f"{saved(scene, tmp_path / 'x.html')}#{hash}") as screen:
        screen.settle()
        assert screen.page.evaluate("window.RAN") is None
        assert screen.find(".error:visible").count() == 0
        screen.at_rest()


def test_a_state_comes_back(screen: Screen) -> None:
    screen.page.evaluate("location.hash = 's=decoder&l=1&h=1&q=9&k=4&c=linear&t=dark&o=entropy&x=10&n=1'")
    screen.says(".matrix-panel h2", "Layer 1 · Head 1")
    screen.says(".row-panel h2", "Query 9")
    screen.has(".clearhead", "data-theme", "dark")
    screen.page.keyboard.press("m")
    screen.page.keyboard.press("ArrowRight")
    screen.address_says(
        v="1", s="decoder", l="1", h="1", q="9", k="5", c="linear", t="dark", o="entropy", x="10", n="1"
    )


def test_the_module_makes_no_markup_from_strings() -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|ContextualFragment"
    for name in SCREEN:
        text = (files("clearhead.view") / "static" / name).read_text(encoding="utf-8")
        assert not re.search(banned, text), name
        assert not re.search(r"""["'`\s]on[a-z]+\s*=\s*["'`]""", text), name
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), name


def test_the_module_is_small_and_whole() -> None:
    assert len(module().encode()) <= 100_000
    assert "import " not in re.sub(r"//.*", "", module()).split("export default")[0].replace("important", "")
    for name in SCREEN:
        assert len((files("clearhead.view") / "static" / name).read_text(encoding="utf-8").splitlines()) <= 250, name


def test_the_module_is_javascript(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (tmp_path / "view.mjs").write_text(module(), encoding="utf-8")
    assert subprocess.run([node, "--check", tmp_path / "view.mjs"], capture_output=True).returncode == 0


LAB = """(theme) => ramp(theme).map((colour) => {
  const [r, g, b] = colour.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
})"""


def test_colours_tokens_and_numbers(browser: Any) -> None:
    with sections(browser) as page:
        for theme, sign in (("light", -1), ("dark", 1)):
            lab = torch.tensor(page.evaluate(f"({LAB})('{theme}')"))
            steps = (lab[8::8] - lab[:-8:8]).norm(dim=-1)
            assert (sign * lab[:, 0].diff() > -0.004).all()
            assert steps.max() < 1.35 * steps.min()
        assert page.evaluate("divergingRamp('light')[128]") == [255, 255, 255]
        assert page.evaluate("[0, 0.2, 1, -1, NaN].map(encodeWeight)") == [1, 114, 254, 0, 255]
        assert page.evaluate("decodeWeight(254)") == 1
        assert page.evaluate("[' a ', 'x\\ny', '', '\\t', 'a b'].map(showToken)") == ["·a·", "x⏎y", "∅", "⇥", "a b"]
        shares = "[0.95, 0.0292, 0.00053, 0.00092, 0.000001, 0, 1, 0.9999].map(percent)"
        assert page.evaluate(shares) == ["95.0%", "2.92%", "0.053%", "0.092%", "<0.001%", "0%", "100%", "100%"]
        assert page.evaluate("[0.4712, 0.00471, 0.00001].map(aboutPercent)") == ["≈47%", "≈0.47%", "<0.01%"]
        assert page.evaluate("count(32768)") == "32,768"
        tokens = "readableTokens([' ⟨F0 9F⟩', '⟨99⟩', '⟨82⟩', 'x']).map(({label}) => label)"
        assert page.evaluate(tokens) == ["·🙂 1/3", "·🙂 2/3", "·🙂 3/3", "x"]
