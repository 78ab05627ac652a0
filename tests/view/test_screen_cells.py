"""What is done to cells and rows in the page before they are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clearhead.view.html import html
from clearhead.view.letters import letters
from view.browser import sections
from view.scenes import alike_and_not, scene_of, translator

CODES = "Uint8Array.from([9, 0, 1, 2, 3, 200, 4, 0, 255, 1, 1, 7])"
PICTURE = f"{{rows: 3, columns: 4, codes: {CODES}, rowStep: 1, columnStep: 1}}"


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    with sections(browser) as found:
        yield found


def test_pooling_keeps_the_highest_and_what_is_no_number(page: Any) -> None:
    found = page.evaluate(f"pool({PICTURE}, 2, 2)")
    assert (found["rows"], found["columns"], found["rowStep"], found["columnStep"]) == (2, 2, 2, 2)
    assert page.evaluate(f"[...pool({PICTURE}, 2, 2).codes]") == [200, 4, 255, 7]


def test_thickening_grows_over_visible_cells_only(page: Any) -> None:
    """200 stands for more than half; its neighbours grow, but not the hidden ones and not what is no number."""
    found = page.evaluate(f"[...thicken({PICTURE}, 0.5).codes]")
    assert found == [200, 0, 200, 2, 200, 200, 200, 0, 255, 200, 200, 7]


def test_without_the_first_key_a_row_sums_to_one(page: Any) -> None:
    row = np.array([0.5, 0.25, 0.125, 0.125, -1])
    exact = page.evaluate(f"[...rowWithoutFirst(Float32Array.from({row.tolist()}))]")
    assert exact == [-1, 0.5, 0.25, 0.25, -1]
    codes = f"Uint8Array.from({row.tolist()}.map(encodeWeight))"
    picture = f"{{rows: 1, columns: 5, codes: {codes}, rowStep: 1, columnStep: 1}}"
    rounded = page.evaluate(f"[...withoutFirst({picture}).codes].map(decodeWeight)")
    assert rounded == pytest.approx(exact, abs=0.008)  # a byte on the way in, one on the way out


def test_the_largest_keys_and_all_others(page: Any) -> None:
    rng = np.random.default_rng(0)
    row = rng.random(5000).astype(np.float32)
    row[::7] = -1
    found = page.evaluate("(row) => largest(Float32Array.from(row), 10)", row.tolist())
    order = np.argsort(-row, kind="stable")
    assert found["top"] == order[:10].tolist()
    assert found["others"] == int((row >= 0).sum()) - 10
    assert found["rest"] == pytest.approx(float(row[order[10:]][row[order[10:]] >= 0].sum()), rel=1e-6)


def test_bars_of_small_weights_have_their_own_limit(page: Any) -> None:
    limits = page.evaluate("[1, 0.21, 0.2, 0.017, 0.004, 0, -1].map(limitOf)")
    assert limits == pytest.approx([1, 1, 0.2, 0.02, 0.005, 1, 1])


def test_ticks_are_round_numbers(page: Any) -> None:
    assert page.evaluate("ticks(512, 6)") == [0, 100, 200, 300, 400, 500]
    assert page.evaluate("ticks(37, 6)") == [0, 10, 20, 30]


def test_a_state_is_clamped_to_the_scene(page: Any) -> None:
    meta = """{stacks: [{id: 'encoder', missing: 'no'}, {id: 'decoder', layers: [2, 3], queries: 5, keys: 7}],
      statistics: {decoder: ['entropy']}, can: {ablate: false}}"""
    given = "{...START, stack: 'encoder', layer: 9, head: 9, query: 9, key: 99, statistic: 'nonsense', ablated: [{}]}"
    found = page.evaluate(f"clampState({given}, {meta})")
    assert (found["stack"], found["layer"], found["head"], found["query"], found["key"]) == ("decoder", 1, 2, 4, 6)
    assert (found["statistic"], found["ablated"]) == ("picture", [])
    text = "s=cross&l=2&h=3&q=4&k=5&c=log&t=dark&o=entropy&x=25&n=1&ab=d1.2z,e0.0m"
    assert page.evaluate(f"formatState({{...START, ...parseState('{text}')}})") == "v=1&" + text.replace(",", "%2C")


READ = """async ([page, times, key]) => {
  let text = page;
  for (let i = 0; i < times; i++) {
    text = `<!doctype html>${new DOMParser().parseFromString(text, "text/html").documentElement.outerHTML}`;
  }
  const source = embeddedSource(new DOMParser().parseFromString(text, "text/html"));
  const {head, data} = await source.ask(key.op, key.args);
  return [head, Array.from(new Uint8Array(data))];
}"""


@pytest.mark.parametrize("times", [0, 2])
def test_a_saved_page_holds_the_scenes_own_pictures(page: Any, times: int) -> None:
    """Noise, rows that are alike, and what a mask hides; and again after a browser has saved the page."""
    for scene in (alike_and_not(), scene_of(translator(), "what one reads is", "what it writes")):
        text = html(scene)
        for part in scene.shown.reading.parts:
            for layer in range(2):
                args = {"stack": part.name, "layer": layer, "head": 1}
                right = scene.ask("image", args)
                head, codes = page.evaluate(READ, [text, times, {"op": "image", "args": args}])
                assert bytes(codes) == right.data
                assert {name: head[name] for name in right.head} == right.head


def test_letters_are_read_at_every_length(page: Any) -> None:
    data = [bytes((7 * size + 101 * i) % 256 for i in range(size)) for size in range(60)]
    found = page.evaluate("(texts) => texts.map((text) => [...bytesIn(text)])", [letters(one) for one in data])
    assert [bytes(one) for one in found] == data
