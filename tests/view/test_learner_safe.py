"""The learner's screen for everybody and against everything: keys alone, readers aloud, hostile names and addresses."""

from __future__ import annotations

import re
from html import unescape
from importlib.resources import files
from pathlib import Path

import pytest

from clearhead.cli import main
from clearhead.view import learner as made
from clearhead.view.learner import SECTIONS, html, write
from clearhead.view.page import module
from view.browser import violations
from view.learner_page import Opener, file, learner

__all__ = ["file", "learner"]

LAST = {"attention": 7, "heads": 5, "order": 4, "cross": 6}
HOSTILE = ["a<b<c", "<img src=x onerror=x()>", "</script><script>x()", "<!--<script>", "`${x}`", "\u2028\u202egnp.exe"]
SIZES = [(1440, 900), (1024, 768), (390, 844)]


def test_everything_by_keyboard(learner: Opener) -> None:
    """Steps, cells, a number, a mistake, a page: no pointer."""
    screen = learner()
    keyboard, focus = screen.page.keyboard, "document.querySelector('#clearhead').shadowRoot.activeElement"
    for _ in range(2):
        keyboard.press("ArrowRight")
    assert screen.text("[aria-current=step]") == "3 Scores"
    keyboard.press("7")
    assert screen.text("[aria-current=step]") == "7 Output"
    while screen.page.evaluate(f"{focus}?.dataset.cell ?? ''") != "X.0.0":
        keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "End", "Home"):
        keyboard.press(key)
    assert screen.page.evaluate(f"{focus}.dataset.cell") == "X.1.0"
    keyboard.type("2.5")
    keyboard.press("Enter")
    assert screen.cell("X", 1, 0).inner_text() == "2.5"
    keyboard.press("Enter")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    assert screen.cell("Q", 1, 0).inner_text() != "−2.8"
    keyboard.press("Escape")
    assert screen.cell("X", 1, 0).inner_text() == "2.5"
    keyboard.press("]")
    screen.page.get_by_label("Choose a mistake").focus()
    keyboard.press("ArrowDown")
    assert screen.page.locator("td.wrong").count() > 0
    screen.page.get_by_role("tab", name="Attention", exact=True).focus()
    keyboard.press("ArrowRight")
    assert screen.page.evaluate(f"{focus}.textContent") == "Two heads"
    keyboard.press("ArrowLeft")
    keyboard.press("ArrowLeft")
    assert screen.page.evaluate(f"{focus}.textContent") == "Cross-attention"


def test_it_is_spoken(learner: Opener) -> None:
    screen = learner("v=1&p=attention&s=7&c=1")
    live = screen.page.locator("[aria-live=polite]")
    screen.cell("scores", 2, 1).focus()
    screen.page.wait_for_timeout(400)
    assert "−0.4 times (−0.6) + 0.3 times 1.6" in live.inner_text()
    label = "weights, row cat, column sat: 0, hidden by the mask"
    assert screen.cell("weights", 1, 2).get_attribute("aria-label") == label
    screen.page.get_by_role("button", name="Back", exact=True).click()
    screen.page.wait_for_timeout(400)
    assert live.inner_text().startswith("Step 6 of 7, Softmax. Scores as shares of attention")
    assert screen.cell("output", 0, 0).get_attribute("aria-label").endswith("not worked out yet, step 7")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(learner: Opener, scheme: str) -> None:
    screen = learner(color_scheme=scheme)
    assert screen.find(".clearhead").get_attribute("data-theme") == scheme
    for address in (
        "p=attention&s=3",
        "p=attention&s=7&c=1&m=mask-nan-zero-times-inf",
        "p=heads&s=5",
        "p=order&s=4&n=1",
    ):
        screen.turn(f"v=1&{address}&x=X.1.1")
        assert violations(screen) == [], address


def test_nothing_is_wider_than_the_screen(learner: Opener) -> None:
    screen = learner()
    for width, height in SIZES:
        screen.page.set_viewport_size({"width": width, "height": height})
        for page, last in LAST.items():
            tokens = '["a very long name","cat","sat","x","y","z"]'
            rows = ";".join(["-1.125,0,1,0"] * 6)
            screen.turn(f"v=1&p={page}&s={last}&n=1&c=1&x=X.0.0&tokens={tokens}&X={rows}")
            assert len(screen.matrix("weights0" if page == "heads" else "weights")[0]) == 6
            wide, room = screen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= room, (page, width)


def test_vis_01_hostile_names_are_text(learner: Opener) -> None:
    """Typed, and then from the address: shown, spelled out where they could act, and nothing runs."""
    screen = learner("v=1&p=attention&s=7")
    for _ in HOSTILE[3:]:
        screen.page.get_by_role("button", name="Add a token").click()
    for i, name in enumerate(HOSTILE):
        screen.page.get_by_label(f"Token {i + 1}").fill(name)
        screen.page.keyboard.press("Enter")
    screen.cell("weights", 0, 5).focus()
    screen.page.get_by_label("Choose a mistake").select_option("scale-missing")
    again = learner(screen.where()[1:])
    for one in (screen, again):
        inner = "document.querySelector('#clearhead').shadowRoot"
        assert one.page.evaluate(f"{inner}.querySelectorAll('img, script, iframe').length") == 0
        names = (
            f"[...{inner}.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
        )
        assert one.page.evaluate(names) == []
        heads = one.page.locator('[aria-label^="weights"] thead th')
        shown = [heads.nth(i).get_attribute("title") or heads.nth(i).inner_text() for i in range(6)]
        assert shown == [*HOSTILE[:5], "ᵁ2028ᵁ202egnp.exe"]
        assert [one.page.get_by_label(f"Token {i + 1}").input_value() for i in range(5)] == HOSTILE[:5]
        assert "ᵁ2028ᵁ202egnp.exe" in one.text(".line p")
    assert again.matrix("weights") == screen.matrix("weights")


def test_the_address_holds_everything(learner: Opener) -> None:
    screen = learner()
    screen.page.get_by_label("causal mask").check()
    screen.page.get_by_label("Token 1").fill("a dog; & co")
    screen.page.keyboard.press("Enter")
    screen.page.get_by_label("Choose a mistake").select_option("mask-sign")
    screen.cell("Wk", 3, 3).click()
    screen.page.keyboard.type("-7.25")
    screen.page.keyboard.press("Enter")
    address = screen.where()
    again = learner(address[1:])
    for name in ("scores", "masked", "weights", "output"):
        assert again.matrix(name) == screen.matrix(name)
    assert again.page.get_by_label("Token 1").input_value() == "a dog; & co"
    assert again.page.get_by_label("Choose a mistake").input_value() == "mask-sign"
    assert again.page.locator("td.chosen").get_attribute("data-cell") == "Wk.3.3"
    again.page.keyboard.press("1")
    assert again.text("[aria-current=step]") == "1 X"
    again.page.go_back()
    again.says("[aria-current=step]", "7 Output")


@pytest.mark.parametrize(
    "address",
    [
        "v=1&p=__proto__&s=-5&m=constructor&t=toString&x=__proto__.0.0",
        "v=1&p=attention&s=99999999999999999999&o=012345678&x=weights.9.9&m=<script>",
        "v=1&s=NaN&X=1,2,3;4,5,6&Wq=1;2;3&tokens=[1,2]&target={}",
        "v=1&X=1e999,0,0,0;0,0,0,0;0,0,0,0&tokens=%5B%22%22%5D",
        "v=1&tokens=" + "[" * 5000,
        "v=2&p=heads",
        "%%%&&&===",
        "v=1&p=heads&m=scale-missing&x=P.0.0&X=1,0,0,0&tokens=%5B%22a%22%2C%22b%22%5D",
    ],
)
def test_a_hostile_address_is_the_lesson(learner: Opener, address: str) -> None:
    screen = learner(address)
    assert screen.page.locator("td.wrong").count() == 0
    assert screen.matrix("X")[0] == ["1", "0", "1", "0"]
    assert screen.page.locator("[aria-current=step]").count() == 1


def test_the_theme_is_the_readers(learner: Opener) -> None:
    screen = learner(color_scheme="dark", reduced_motion="reduce")
    root = screen.page.locator(".clearhead")
    assert root.get_attribute("data-theme") == "dark"
    screen.page.keyboard.press("d")
    assert root.get_attribute("data-theme") == "light"
    assert "t=light" in screen.where()


def test_on_paper_the_controls_are_gone(learner: Opener) -> None:
    screen = learner("v=1&p=attention&s=7")
    screen.page.emulate_media(media="print")
    assert screen.page.locator(".tools").is_hidden()
    assert screen.cell("weights", 0, 0).is_visible()


def test_no_markup_from_strings_and_small_sections() -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML|DOMParser"
    banned += r"|(?<![\w.-])on(?:click|error|load|input|change|focus|blur|key\w+|pointer\w+|mouse\w+) ?="
    for name in (name for name in SECTIONS if name.startswith("learner")):
        text = (files("clearhead.view") / "static" / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250, name
        assert max(map(len, text.splitlines())) <= 120, name
        if name.endswith(".js"):
            assert not re.search(banned, text), name
            assert "import " not in text
    assert len(module(SECTIONS).encode()) <= 100_000


def test_the_file_lets_nothing_else_in() -> None:
    page = html()
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<!--" not in page
    assert re.findall(r"(?:src|href)=", page.split("<script")[0]) == []
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', unescape(page.split("<script")[0]))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_written_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write(tmp_path / "page.html").read_text(encoding="utf-8") == html()
    write(tmp_path / "page.html")  # over itself, as every picture is
    with pytest.raises(ValueError, match="is no folder; make it first"):
        write(tmp_path / "none" / "page.html")
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        write(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)) or True)
    path, found = made.show("heads")
    assert found
    assert opened == [f"{path.as_uri()}#v=1&p=heads"]
    with pytest.raises(ValueError, match="topic 'torch' has no page to open; choose one of attention, mask"):
        made.show("torch")


def test_the_verb_writes_and_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lesson.html"
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    monkeypatch.setattr("sys.argv", ["clearhead", "lesson", "order", "--html", str(file), "--open"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{file} shows it"
    assert said[1].startswith("no browser was found; open ")
    assert file.read_text(encoding="utf-8") == html()
