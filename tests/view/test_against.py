"""Two looks held against each other: tokens paired, every head's distance, other models, the terminal, refusals."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead
from clearhead.cli import main
from clearhead.model.transformer import Transformer
from clearhead.view.against import Comparison
from clearhead.view.look import Look, as_text, look
from clearhead.view.pairing import TOKENS, Compared, places
from clearhead.view.reading import Part
from model.tiny import rotary_decoder
from view.scenes import TEXT, reader, translator, writer

OTHER = "what one said is what he is then"


@pytest.fixture(scope="module")
def model() -> Transformer:
    return writer()


@pytest.fixture(scope="module")
def texts(model: Transformer) -> Comparison:
    return look(model, TEXT, top=3).against(look(model, OTHER))


def test_equal_tokens_are_paired_and_a_run_in_place_of_as_many() -> None:
    assert places(["the", "cat", "sat"], ["the", "dog", "sat"]) == [(0, 0), (1, 1), (2, 2)]
    assert places([*"abc"], [*"axyc"]) == [(0, 0), (1, None), (None, 1), (None, 2), (2, 3)]
    assert places(["a"], []) == [(0, None)]


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_every_token_stands_once_and_in_order(a: list[str], b: list[str]) -> None:
    found = places(a, b)
    for side, text in enumerate((a, b)):
        assert [place[side] for place in found if place[side] is not None] == [*range(len(text))]


def dense(part: Part, layer: int, head: int) -> np.ndarray:
    return part.layers[layer].dense()[0, head].double().numpy()


def apart(part: Compared, a: np.ndarray, b: np.ndarray) -> float:
    """By the definition, pair by pair: paired keys share a place, every other key has one of its own."""
    found: list[float] = []
    for i, j in part.queries:
        if i is None or j is None:
            continue
        rows = [(0.0 if k is None else a[i, k], 0.0 if m is None else b[j, m]) for k, m in part.keys]
        found.append(0.5 * sum(abs(x - y) for x, y in rows))
    return float(np.mean(found))


def test_the_distance_is_the_total_variation_on_one_line(texts: Comparison) -> None:
    (part,) = texts.parts
    assert part.in_place
    assert any(None in place for place in part.queries)
    for layer, row in enumerate(part.distances):
        for head, distance in enumerate(row):
            want = apart(part, dense(part.a, layer, head), dense(part.b, layer, head))
            assert distance == pytest.approx(want, abs=1e-6)
            assert 0 < distance < 1
            assert part.partners[layer][head] == (layer, head)


def test_a_text_against_itself_has_not_moved(model: Transformer) -> None:
    (part,) = look(model, TEXT).against(look(model, TEXT)).parts
    assert all(distance == 0 for row in part.distances for distance in row)


def test_before_the_first_difference_a_causal_model_is_the_same(model: Transformer) -> None:
    (part,) = look(model, "what one").against(look(model, "what one reads")).parts
    assert max(max(row) for row in part.distances) < 1e-6
    assert part.queries[-1][0] is None


def test_all_three_attentions_of_a_translator() -> None:
    both = translator()
    found = look(both, "the cat", "die katze").against(look(both, "the dogs", "der hund"))
    assert [part.name for part in found.parts] == ["encoder", "decoder", "cross"]
    cross = found.parts[2]
    assert cross.tokens[0]["queries"] == found.parts[1].tokens[0]["queries"]
    assert cross.tokens[1]["keys"] == found.parts[0].tokens[1]["keys"]
    want = apart(cross, dense(cross.a, 1, 2), dense(cross.b, 1, 2))
    assert cross.distances[1][2] == pytest.approx(want, abs=1e-6)


def other_model(heads: int, layers: int) -> Transformer:
    config = rotary_decoder()
    (layer, *_) = config.decoder.layers  # type: ignore[union-attr]
    attention = replace(layer.self_attention, heads=heads, kv_heads=None)
    one = replace(layer, self_attention=attention)
    return reader(replace(config, decoder=replace(config.decoder, layers=(one,) * layers)))  # type: ignore[type-var]


def test_two_models_of_one_shape_are_compared_in_place(model: Transformer) -> None:
    other = writer()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    found = look(model, TEXT).against(look(other, TEXT), ("small", "large"))
    assert found.names == ("small", "large")
    assert found.parts[0].in_place
    assert all(i == j for i, j in found.parts[0].queries)
    assert min(min(row) for row in found.parts[0].distances) > 0


def test_of_another_model_the_nearest_head_is_taken(model: Transformer) -> None:
    found = look(model, TEXT).against(look(other_model(3, 3), TEXT))
    (part,) = found.parts
    assert not part.in_place
    for layer, row in enumerate(part.distances):
        for head, distance in enumerate(row):
            a = dense(part.a, layer, head)
            every = {(i, h): apart(part, a, dense(part.b, i, h)) for i in range(3) for h in range(3)}
            assert distance == pytest.approx(min(every.values()), abs=1e-6)
            assert every[part.partners[layer][head]] == pytest.approx(min(every.values()), abs=1e-6)
    assert found.names == ("decoder of 2 layers, width 10", "decoder of 3 layers, width 10")
    assert "each against the nearest of b" in repr(found)


def test_the_terminal_shows_all_heads_and_those_that_moved_most(texts: Comparison) -> None:
    drawn = as_text(texts, 80, colour=False)
    (part,) = texts.parts
    order = sorted(((d, i, h) for i, row in enumerate(part.distances) for h, d in enumerate(row)), reverse=True)
    lines = [line for line in drawn.splitlines() if "%  layer" in line]
    assert [line.split("layer ")[1] for line in lines] == [f"{i} head {h}" for _, i, h in order[:3]]
    assert "\x1b" not in repr(texts)
    assert json.loads(json.dumps(texts.to_dict()))["parts"][0]["distances"] == part.distances


def test_chosen_heads_are_drawn_of_both(model: Transformer) -> None:
    drawn = repr(look(model, "what", heads=[(1, 2)]).against(look(model, "that")))
    assert "what: decoder, layer 1, head 2" in drawn
    assert "that: decoder, layer 1, head 2" in drawn


def test_weights_that_are_no_numbers_are_said_to_be_none(model: Transformer) -> None:
    broken = writer()
    with torch.no_grad():
        for parameter in broken.parameters():
            parameter.fill_(math.nan)
    found = look(model, TEXT).against(look(broken, TEXT))
    assert {d for row in found.to_dict()["parts"][0]["distances"] for d in row} == {None}
    json.dumps(found.to_dict(), allow_nan=False)
    assert "nan %" in repr(found)


def test_what_has_nothing_in_common_is_refused(model: Transformer) -> None:
    encoder = look(translator(), "the cat", "die")
    alone = Look(encoder.parts[:1], (), "entropy", 8)
    with pytest.raises(ValueError, match="nothing to compare: a has decoder, b has encoder"):
        look(model, TEXT).against(alone)
    with pytest.raises(ValueError, match="decoder: no token of b stands for one of a"):
        look(model, "wha").against(look(model, "zzzz"))


def test_long_texts_are_refused(model: Transformer) -> None:
    long = look(model, "ab" * 300)
    with pytest.raises(ValueError, match=rf"b has 600 tokens in its decoder, a comparison shows at most {TOKENS}"):
        look(model, TEXT).against(long)


def test_a_page_holds_what_there_is_room_for(texts: Comparison) -> None:
    exact, rounded = texts.html(), texts.html(max_mb=0.066)
    assert '"exact": true' in exact
    assert '"exact": false' in rounded
    assert len(rounded.encode()) <= 66_000 < len(exact.encode())
    with pytest.raises(ValueError, match=r"the page takes 0\.1 MB, max_mb is 0\.01; give more, or shorter texts"):
        texts.html(max_mb=0.01)
    assert "sandbox" in str(texts._repr_html_())  # pyright: ignore[reportPrivateUsage]


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clearhead.save(writer(), tmp_path / "a")
    clearhead.save(other_model(3, 3), tmp_path / "b")

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["clearhead", "look", str(tmp_path / "a"), TEXT, *words])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out + said.err

    status, said = run("--against", OTHER)
    assert status == 0
    assert "how far each head moved, in percent, mean over 24 paired tokens" in said
    status, said = run("--against-model", str(tmp_path / "b"), "--json")
    assert status == 0
    assert [side["name"] for side in json.loads(said)["sides"]] == [str(tmp_path / "a"), str(tmp_path / "b")]
    page = tmp_path / "page.html"
    assert run("--against", OTHER, "--html", str(page)) == (0, f"{page} shows it\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    status, said = run("--against", OTHER, "--svg", str(tmp_path / "x.svg"))
    assert status == 2
    assert "--svg draws one look; of two, --html FILE makes a page" in said
