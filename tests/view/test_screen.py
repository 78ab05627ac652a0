"""The researcher's screen in a browser: what it shows is what the model has, and a keyboard is enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.text.build import word_tokenizer
from clearhead.view.scene import Scene
from view.browser import Screen, opened, saved, sections, served
from view.scenes import floats, scene_of, translator, writer


@pytest.fixture(scope="module")
def scene() -> Scene:
    return scene_of(translator(), "what one reads is", "what it writes")


@pytest.fixture(scope="module")
def address(scene: Scene) -> Iterator[str]:
    with served(scene) as found:
        yield found


@pytest.fixture(scope="module")
def file(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As of a long text: one head exactly, the others rounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.view.html.EXACT", 0)
        return saved(scene, tmp_path_factory.mktemp("saved") / "scene.html", heads=[(0, 1)])


@pytest.fixture
def screen(browser: Any, address: str) -> Iterator[Screen]:
    with opened(browser, f"{address}#s=decoder&l=0&h=1&q=5&k=3") as found:
        found.settle()
        yield found
        found.at_rest()


def row_of(scene: Scene, stack: str, layer: int, head: int, query: int) -> np.ndarray:
    return floats(scene.ask("row", {"stack": stack, "layer": layer, "head": head, "query": query}).data).numpy()


def percent(p: float) -> str:
    """Three digits, as the page writes them."""
    value = 100 * p
    digits = 0 if value >= 99.95 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}%"


def test_the_row_is_the_models(screen: Screen, scene: Scene) -> None:
    row = row_of(scene, "decoder", 0, 1, 5)
    screen.says(".readout", f"{percent(row[3])} ({row[3]:.6g})".replace("0.00000", "0"))
    shown = screen.find(".top tbody tr:not(.others) .number").all_text_contents()
    assert shown == [percent(p) for p in sorted(row[row >= 0], reverse=True)[:10]]
    keys = [int(text) for text in screen.find(".top tbody button").all_text_contents()]
    assert keys == np.argsort(-row, kind="stable")[: len(keys)].tolist()
    screen.says(".row-panel", "Σ 1.0000")


def test_the_drawn_cells_are_the_recorded_weights(browser: Any, screen: Screen, scene: Scene) -> None:
    """From pixels back to weights, by the page's own colour table, against the model's recording."""
    answer = scene.ask("image", {"stack": "decoder", "layer": 0, "head": 1})
    codes = np.frombuffer(answer.data, np.uint8).reshape(answer.head["rows"], answer.head["columns"])
    exact = np.stack([row_of(scene, "decoder", 0, 1, query) for query in range(len(codes))])
    with sections(browser) as page:
        table = page.evaluate("Array.from(pixelTable('sqrt light'), (p) => [p & 255, (p >> 8) & 255, (p >> 16) & 255])")
    shown = np.array(screen.page.evaluate(PIXELS, list(codes.shape)))
    seen = exact >= 0
    assert seen.sum() > 40
    assert (codes[exact >= 0] == 1 + np.round(253 * np.sqrt(exact[exact >= 0]))).all()
    assert (shown[seen] == np.array(table)[codes[seen]]).all()


PIXELS = """([rows, columns]) => {
  const root = document.querySelector('#clearhead').shadowRoot;
  const canvas = root.querySelector('.field canvas');
  const view = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const at = (x, y) => [...view.data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3)];
  const frame = JSON.parse(root.querySelector('.field').dataset.frame);
  const middle = (start, size, count, i) => Math.floor(devicePixelRatio * (start + (i + 0.3) * size / count));
  return Array.from({length: rows}, (_, row) => Array.from({length: columns}, (_, column) =>
    at(middle(frame.x, frame.w, columns, column), middle(frame.y, frame.h, rows, row))));
}"""


def test_every_stack_has_a_tab(screen: Screen, scene: Scene) -> None:
    screen.find('[role="tab"][data-stack="cross"]').click()
    screen.says(".text-panel", "Target text")
    screen.says(".text-panel", "Source text")
    screen.address_says(s="cross")
    screen.find('[role="tab"][data-stack="encoder"]').click()
    screen.has('[role="tab"][data-stack="encoder"]', "aria-selected", "true")
    screen.says(".lens-panel", "no head that names tokens")
    assert screen.find('.text-panel [role="option"]').count() == len(scene.ask("meta").head["tokens"]["encoder"])


def test_another_stack_keeps_the_head_that_an_address_names(screen: Screen) -> None:
    screen.page.evaluate("location.hash = 's=cross&l=1&h=0&q=2'")
    screen.says(".text-panel", "Source text")
    screen.page.wait_for_function(
        "() => document.querySelector('#clearhead').shadowRoot.querySelector('.sentence').innerText.startsWith('L1·H0')"
    )
    screen.says(".matrix-panel h2", "Layer 1 · Head 0")
    screen.says(".row-panel h2", "Query 2")


def test_an_absent_stack_says_why(browser: Any) -> None:
    with served(scene_of(writer())) as address, opened(browser, address) as screen:
        screen.settle()
        tab = screen.find('[role="tab"][data-stack="cross"]')
        assert tab.get_attribute("aria-disabled") == "true"
        assert tab.get_attribute("title") == "this model has no cross-attention"
        tab.click(force=True)
        screen.says('[role="status"].unseen', "Cross: this model has no cross-attention.")
        screen.has('[role="tab"][data-stack="decoder"]', "aria-selected", "true")
        screen.at_rest()


def test_a_keyboard_is_enough(screen: Screen, scene: Scene) -> None:
    press = screen.page.keyboard.press
    press("o")
    press("ArrowLeft")
    screen.address_says(l="0", h="0", q="5", k="3")
    press("m")
    press("ArrowDown")
    press("ArrowLeft")
    screen.address_says(q="6", k="2")
    press("Home")
    screen.address_says(k="0")
    press("Shift+ArrowUp")
    screen.address_says(q="0")
    press("PageDown")
    press("End")
    last = len(scene.ask("meta").head["tokens"]["decoder"]) - 1
    screen.address_says(q=str(last), k=str(last))
    order = np.argsort(-row_of(scene, "decoder", 0, 0, last), kind="stable")
    press("t")
    screen.address_says(k=str(order[(order.tolist().index(last) + 1) % len(order)]))
    press("s")
    screen.address_says(c="log")
    press("d")
    screen.address_says(t="dark")
    press("]")
    screen.address_says(s="cross")
    press("?")
    screen.page.wait_for_selector("dialog[open]")
    press("Escape")
    assert screen.find("dialog[open]").count() == 0
    press("/")
    screen.page.keyboard.type("t")
    press("Enter")
    screen.says(".found", "of")


def test_moves_are_said(screen: Screen, scene: Scene) -> None:
    screen.page.keyboard.press("m")
    screen.page.keyboard.press("ArrowDown")
    row = row_of(scene, "decoder", 0, 1, 6)
    screen.says('[role="status"].unseen', "Layer 0 head 1, query 6")
    screen.says('[role="status"].unseen', percent(row.max()))


def test_the_grid_has_one_stop_in_the_tab_order(screen: Screen) -> None:
    assert screen.find('[role="gridcell"][tabindex="0"]').count() == 1
    screen.has('[role="gridcell"][tabindex="0"]', "aria-selected", "true")
    label = screen.find('[role="gridcell"][tabindex="0"]').get_attribute("aria-label")
    assert label.startswith("Layer 0 head 1: ")
    assert label.endswith("bits")


def test_pointing_shows_and_clicking_chooses(screen: Screen, scene: Scene) -> None:
    field = screen.find(".field")
    frame = screen.page.evaluate(
        "() => JSON.parse(document.querySelector('#clearhead').shadowRoot.querySelector('.field').dataset.frame)"
    )
    size = len(row_of(scene, "decoder", 0, 1, 5))
    place = {"x": frame["x"] + 1.5 * frame["w"] / size, "y": frame["y"] + 4.5 * frame["h"] / size}
    field.hover(position=place)
    row = row_of(scene, "decoder", 0, 1, 4)
    screen.says(".readout", percent(row[1]))
    assert screen.state()["q"] == "5"
    field.click(position=place)
    screen.address_says(q="4", k="1")


def test_statistics_and_patterns(screen: Screen, scene: Scene) -> None:
    head = scene.ask("overview", {"stack": "decoder"}).head
    choice = screen.find(".heads-panel select")
    choice.select_option("entropy")
    values = [value for layer in head["statistics"]["entropy"] for value in layer]
    screen.says(".legend", f"{min(values):.2f} bits")
    screen.says(".legend", f"{max(values):.2f} bits")
    screen.address_says(o="entropy")
    choice.select_option("pattern")
    screen.says(".legend", dict(scene.ask("meta").head["patterns"])[head["patterns"][0][0]])
    screen.find(".heads-panel summary").click()
    screen.says(".heads-panel table", "L0·H0")
    table = screen.find(".heads-panel table tbody tr")
    assert table.count() == sum(head["layers"])
    assert table.nth(1).locator("td").nth(1).text_content() == f"{head['statistics']['entropy'][0][1]:.2f} bits"


def test_the_pair_in_every_head(screen: Screen, scene: Scene) -> None:
    values = floats(scene.ask("pair", {"stack": "decoder", "query": 5, "key": 3}).data).numpy()
    screen.find(".pair-panel details.behind summary").click()
    screen.says(".pair-panel table", percent(values[0]))
    assert screen.find(".pair-panel table td").all_text_contents() == [percent(p) for p in values]
    screen.says(".pair-panel", f"{percent(values.max())}")


def test_without_the_sink_rows_sum_to_one(screen: Screen, scene: Scene) -> None:
    screen.find("text=without the sink").click()
    row = row_of(scene, "decoder", 0, 1, 5)
    rest = np.where(np.arange(len(row)) == 0, -1, row / row[1:][row[1:] > 0].sum())
    shown = screen.find(".top tbody tr:not(.others) .number")
    screen.says(".matrix-panel", "the first key is left out")
    screen.says(".top .number >> nth=1", percent(rest.max()))
    assert shown.all_text_contents() == [percent(p) for p in sorted(rest[1:][rest[1:] >= 0], reverse=True)[:10]]


def test_a_saved_page_needs_nothing(browser: Any, file: str, scene: Scene) -> None:
    with opened(browser, f"{file}#s=decoder&l=0&h=1&q=5&k=3", offline=True) as screen:
        screen.settle()
        row = row_of(scene, "decoder", 0, 1, 5)
        screen.says(".readout", percent(row[3]))
        screen.page.keyboard.press("o")
        screen.page.keyboard.press("ArrowLeft")
        screen.says(".readout", "≈")
        row = row_of(scene, "decoder", 0, 0, 5)
        shown = screen.find(".top tbody tr:not(.others) .number").first.text_content()
        assert float(shown.strip("≈%")) == pytest.approx(100 * row.max(), rel=0.05)
        screen.find('[role="tab"][data-stack="cross"]').click()
        screen.says(".text-panel", "Source text")
        for asks_the_model in (".ablate", ".effect-panel", ".live .steps", ".another"):
            assert screen.find(asks_the_model).first.is_hidden()
        assert [url for url in screen.requests if not url.startswith(("file:", "data:"))] == []
        screen.at_rest()


def test_words_stand_apart_in_the_text(browser: Any, tmp_path: Path) -> None:
    """Where tokens are whole words, blanks are shown that no token holds; the axes name the words alone."""
    model = writer()
    model.tokenizer = word_tokenizer(["what one reads is what is"])
    with opened(browser, saved(scene_of(model, "what one reads"), tmp_path / "a.html")) as screen:
        screen.settle()
        screen.says(".flow", "what one reads")
        screen.says(".context", "what one reads")
        screen.find(".matrix-panel summary").click()
        screen.says(".matrix-panel thead", "1 one2 reads")
