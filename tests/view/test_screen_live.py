"""The researcher's screen with a model behind it: the lens, ablation, another text and writing on, against Python."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.lens.edits import ablate
from clearhead.view.reading import Part, Reading
from clearhead.view.scene import Scene
from view.browser import Screen, opened, saved, served, violations
from view.scenes import TEXT, recording, scene_of, translator, weights, writer
from view.test_screen import percent


@pytest.fixture(scope="module")
def scene() -> Scene:
    return scene_of(writer())


@pytest.fixture(scope="module")
def address(scene: Scene) -> Iterator[str]:
    with served(scene) as found:
        yield found


@pytest.fixture
def screen(browser: Any, address: str) -> Iterator[Screen]:
    with opened(browser, f"{address}#s=decoder&l=0&h=1&q=5&k=3") as found:
        found.settle()
        yield found
        found.at_rest()


def test_an_ablation_says_what_the_model_says(screen: Screen, scene: Scene) -> None:
    """Before and after are the softmax of the logits with and without the head, from Python."""
    screen.find("text=Ablate").first.click()
    screen.address_says(ab="d0.1z")
    screen.says(".effect-panel table", "before")
    model, given = scene.model, scene.shown.reading.given
    assert model is not None
    with torch.no_grad():
        before = model(**given).logits[0, 5].softmax(-1)
        with clearhead.edit(model, {"decoder.0.self.heads": ablate(heads=[1])}):
            after = model(**given).logits[0, 5].softmax(-1)
    follows = int(given["input_ids"][0, 6])
    screen.says(".effect-panel", f"{percent(float(before[follows]))} → {percent(float(after[follows]))}")
    shown = screen.find(".effect-panel td").all_text_contents()
    assert [text.strip() for text in shown[:10:2]] == [percent(float(p)) for p in before.topk(5).values]
    assert screen.find(".effect-legend").is_visible()
    screen.says(".effect-panel", "KL(before ‖ after)")
    screen.has('[role="gridcell"][tabindex="0"]', "aria-label", re.compile("switched off$"))
    screen.page.keyboard.press("x")
    screen.says(".effect-panel", "Switch a head off")
    assert screen.find(".effect-legend:visible").count() == 0


def test_every_head_off_once(screen: Screen, scene: Scene) -> None:
    """The change of what follows the query, and of another query without asking again; at the end nothing follows."""
    screen.find(".heads-panel select").select_option("change_of_log_p")
    screen.find("text=switch each of 8 heads off once").click()
    screen.find("text=Heads as a table").click()
    for query in (5, 6):
        right: list[str] = []
        for layer, head in product(range(2), range(4)):
            off = {"stack": "decoder", "layer": layer, "head": head, "how": "zero"}
            target = scene.ask("ablate", {"heads": [off], "query": query}).head["target"]
            right.append(f"{math.log(target['after'] / target['before']):.2f} nats".replace("-", "−"))
        screen.says(".heads-panel tbody tr:last-child td:last-child", right[-1])
        assert screen.find(".heads-panel tbody td:last-child").all_text_contents() == right
        screen.page.keyboard.press("m")
        screen.page.keyboard.press("ArrowDown")
        screen.address_says(q=str(query + 1))
    assert sum(url.endswith("ablate") for url in screen.requests) == 8
    screen.page.keyboard.press("PageDown")
    screen.page.keyboard.press("PageDown")
    screen.says(".heads-panel .legend", "Nothing follows this query.")


def test_switching_heads_off_one_after_the_other_can_be_stopped(screen: Screen) -> None:
    def slow(route: Any) -> None:
        time.sleep(0.3)
        route.continue_()

    screen.page.route("**/api/ablate", slow)
    screen.find(".heads-panel select").select_option("change_of_log_p")
    screen.find("text=switch each of 8 heads off once").click()
    screen.find("text=stop, 1 of 8").click()
    screen.says(".heads-panel", "switch each of 8 heads off once")
    assert sum(url.endswith("ablate") for url in screen.requests) < 8


def test_the_logit_lens(screen: Screen, scene: Scene) -> None:
    layers = scene.ask("lens", {"stack": "decoder", "query": 5}).head["layers"]
    screen.says(".lens-panel table", "embed")
    last = screen.find(".lens-panel tbody tr").last.locator("td").all_text_contents()
    assert percent(layers[-1]["top"][0]["p"]) in last[0]
    assert last[1:] == [str(layers[-1]["rank"]), percent(layers[-1]["p"])]
    assert screen.find(".lens-panel tbody tr").count() == len(layers)


def test_writing_on(screen: Screen, scene: Scene) -> None:
    count = screen.find('.flow [role="option"]').count()
    said = scene.copy().ask("step", {"count": 1}).head
    screen.page.keyboard.press("g")
    screen.says(".steps", "Written" if not said["done"] else "ended")
    screen.says(".steps", percent(said["top"][0]["p"]))
    assert screen.find('.flow [role="option"]').count() == count + (not said["done"])


def test_another_text_and_what_cannot_be_read(screen: Screen) -> None:
    screen.find(".another summary").click()
    screen.find(".another button").click()
    screen.says(".error", "the text is empty; give some words")
    assert screen.complaints.pop().endswith("400 (Bad Request)")
    screen.find(".error button").click()
    screen.find(".another textarea").first.fill("<b> is read")
    screen.find(".another button").click()
    screen.says(".what", "tokens")
    screen.says(".flow", "<b> is read")


def test_a_translator_is_given_both_texts(browser: Any) -> None:
    with served(scene_of(translator(), "what one reads", "what is")) as address, opened(browser, address) as screen:
        screen.settle()
        screen.find(".another summary").click()
        screen.find(".another textarea").nth(0).fill("a b")
        screen.find(".another textarea").nth(1).fill("c d e")
        screen.find(".another button").click()
        screen.says(".flow", "c d e")
        screen.find('[role="tab"][data-stack="encoder"]').click()
        screen.says(".flow", "a b")
        screen.find("text=Ablate").first.click()
        screen.says(".effect-panel table", "before")
        screen.at_rest()


def test_what_went_wrong_is_said(browser: Any, scene: Scene) -> None:
    with served(scene) as address, opened(browser, address) as screen:
        screen.settle()
        screen.page.route("**/api/row", lambda route: route.abort())
        screen.page.keyboard.press("m")
        screen.page.keyboard.press("ArrowUp")
        screen.says(".error", "The server does not answer")


@pytest.mark.parametrize(
    ("theme", "size"), [("light", (1440, 900)), ("dark", (1440, 900)), ("light", (1024, 768)), ("dark", (390, 844))]
)
def test_axe_finds_nothing(browser: Any, address: str, theme: str, size: tuple[int, int]) -> None:
    with opened(browser, f"{address}#q=5", *size, color_scheme=theme) as screen:
        screen.settle()
        screen.find("text=Ablate").first.click()
        screen.says(".effect-panel table", "before")
        assert_clean(screen, theme, size)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_saved_page(browser: Any, tmp_path: Path, theme: str) -> None:
    """Of an encoder and a decoder, wide, narrow and on a phone."""
    address = saved(scene_of(translator(), TEXT, "what it writes"), tmp_path / "a.html")
    for stack in ("encoder", "cross"):
        for size in ((1440, 900), (1024, 768), (390, 844)):
            with opened(browser, f"{address}#s={stack}", *size, color_scheme=theme) as screen:
                screen.settle()
                assert_clean(screen, theme, size)


def assert_clean(screen: Screen, theme: str, size: tuple[int, int]) -> None:
    """Nothing for axe with everything unfolded, and nothing wider than the window."""
    screen.has(".clearhead", "data-theme", theme)
    for summary in screen.find("summary:visible").all():
        summary.click()
    screen.find(".heads-panel select").select_option("entropy")
    assert violations(screen) == []
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_long_text_is_shown_in_windows(browser: Any) -> None:
    with served(recording(3000)) as address, opened(browser, f"{address}#q=2900&k=1500") as screen:
        screen.settle()
        screen.says(".matrix-panel", "of 3,000 query rows, each exact")
        screen.says(".flow", "tokens")
        places = {int(one.get_attribute("data-place")) for one in screen.find('.flow [role="option"]').all()}
        assert {0, 1500, 2900} <= places
        assert len(places) < 500
        gaps = screen.find(".gap").all_text_contents()
        assert sum(int(gap.split()[0].replace(",", "")) for gap in gaps) + len(places) == 3000
        screen.find("text=show the highest of all queries").click()
        screen.says(".matrix-panel", "Rows show the highest of every 6 queries")
        screen.at_rest()


def test_vis_09_what_is_no_number_and_what_is_hidden_look_unlike_zero(browser: Any) -> None:
    """Magenta, hatched, palest: three cells, three looks."""
    view = weights(6, 6)
    view.q[0, 0, 3] = float("nan")
    tokens = list(TEXT[:6])
    scene = Scene(Reading.of([Part("decoder", tokens, tokens, [view], torch.arange(6))]))
    with served(scene) as address, opened(browser, f"{address}#l=0&h=0&q=2&k=1") as screen:
        screen.settle()
        screen.says(".keyline", "not a number")
        screen.says(".keyline", "hidden by the mask")
        screen.page.keyboard.press("m")
        screen.page.keyboard.press("ArrowDown")
        screen.says(".readout", "NaN")
        screen.at_rest()


def test_the_theme_is_the_hosts(browser: Any, address: str) -> None:
    with opened(browser, address, color_scheme="light") as screen:
        screen.settle()
        for name, value, theme in [
            ("data-jp-theme-light", "false", "dark"),
            ("data-jp-theme-light", "true", "light"),
            ("data-vscode-theme-kind", "vscode-dark", "dark"),
        ]:
            screen.page.evaluate(
                "([name, value]) => { for (const one of ['data-jp-theme-light', 'data-vscode-theme-kind'])"
                " document.body.removeAttribute(one); document.body.setAttribute(name, value); }",
                [name, value],
            )
            screen.has(".clearhead", "data-theme", theme)
        screen.at_rest()


FAKE_NOTEBOOK = """async (source) => {
  const view = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  const listeners = {};
  const sent = [];
  const model = {
    sent, traits: {state: 's=decoder&l=0&h=1&q=5&k=3'},
    get: (name) => model.traits[name],
    set: (name, value) => { model.traits[name] = value; },
    save_changes: () => {},
    on: (name, call) => { (listeners[name] ??= []).push(call); },
    off: (name, call) => { listeners[name] = (listeners[name] ?? []).filter((one) => one !== call); },
    send: async (message) => {
      sent.push(message);
      const {head, data} = await window.answer(message.op, message.args ?? {});
      const bytes = Uint8Array.from(data);
      for (const call of listeners['msg:custom'] ?? []) call({id: message.id, head}, [new DataView(bytes.buffer)]);
    },
  };
  const el = document.createElement('div');
  el.id = 'clearhead';
  document.body.append(el);
  window.model = model;
  window.close = view.default.render({model, el});
  window.listeners = listeners;
}"""


def test_a_notebook(browser: Any, scene: Scene) -> None:
    """The module through a blob, as anywidget loads it, with a model of the notebook's kind."""
    from clearhead.view.page import module

    def answer(op: str, args: dict[str, Any]) -> dict[str, Any]:
        head, data = scene.ask(op, args)
        return {"head": head, "data": list(data)}

    with opened(browser, "about:blank") as screen:
        screen.page.expose_function("answer", answer)
        screen.page.evaluate(FAKE_NOTEBOOK, module())
        screen.settle()
        screen.page.keyboard.press("Tab")
        screen.find(".field").press("ArrowDown")
        screen.page.wait_for_function("model.traits.state.includes('q=6')")
        screen.page.evaluate("window.close()")
        left = (
            "Object.values(listeners).flat().length + document.querySelector('#clearhead').shadowRoot.children.length"
        )
        assert screen.page.evaluate(left) == 0
        screen.at_rest()
