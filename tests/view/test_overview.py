"""All heads at a glance: small pictures, numbers and names, at once or filling in."""

import pytest
import torch

from clearhead.lens.finding import KINDS, find_heads
from clearhead.view import overview
from clearhead.view.overview import PATTERNS, Overview
from clearhead.view.pooling import codes
from clearhead.view.reading import Part, always, run
from model.tiny import learned_encoder, post_norm_translator, relative_translator, rotary_decoder, window_decoder
from view.scenes import Largest, random_model, recording, weights

IDS = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8, 9, 5, 6, 6]])


def _of(config: object, second: bool = False) -> tuple[object, dict[str, Overview]]:
    model = random_model(config)  # type: ignore[arg-type]
    given = {"input_ids": IDS} | ({"decoder_input_ids": IDS[:, :7]} if second else {})
    found = {part.name: Overview(part) for part in run(model, given).parts}
    for one in found.values():
        one.more(always)
    return (model, given), found


ONE = {"rotary": rotary_decoder, "window": window_decoder, "encoder": learned_encoder}


@pytest.mark.parametrize("name", [*ONE, "translator", "relative"])
def test_the_numbers_are_those_of_the_lens(name: str) -> None:
    make = ONE.get(name) or {"translator": post_norm_translator, "relative": relative_translator}[name]
    (model, given), found = _of(make(), name not in ONE)
    table = find_heads(model, given, progress=False)
    for stack, one in found.items():
        assert one.done
        numbers = one.statistics()
        for layer, view in enumerate(one.part.layers):
            measured = view.measure()
            for statistic in set(numbers) & {"entropy", "effective_keys", "max", "distance"}:
                right = measured[statistic][0].mean(-1).tolist()
                assert numbers[statistic][layer] == pytest.approx(right, rel=1e-5, abs=1e-6)
            address = f"{'decoder' if stack == 'cross' else stack}.{layer}.{'cross' if stack == 'cross' else 'self'}"
            kinds = table.values[table.axes["attention"].index(address)]
            for k, kind in enumerate(KINDS):
                if kind in numbers:
                    right = kinds[: view.shape[1], k].tolist()
                    assert numbers[kind][layer] == pytest.approx(right, rel=1e-5, abs=1e-6), (address, kind)
                else:
                    assert kinds[:, k].isnan().all()
            for head, pattern in enumerate(one.patterns()[layer]):
                best = max((k for k in KINDS if k in numbers), key=lambda k: numbers[k][layer][head])
                if numbers[best][layer][head] >= 0.4:
                    assert pattern == best
                else:
                    assert pattern in ("diffuse", "mixed")


def test_an_even_head_is_diffuse_and_a_sharp_one_is_what_it_looks_at() -> None:
    n = 20
    view = weights(n, n, heads=3)
    view.q[:, 0] = 0  # even
    view.q[:, 1:], view.k[:, 1:] = 0, 0
    view.q[0, 1, torch.arange(n), 0] = 40.0
    view.k[0, 1, 0, 0] = 40.0  # the first key
    turned = torch.stack([torch.arange(n).double().cos(), torch.arange(n).double().sin()], -1).float()
    view.q[0, 2, :, :2], view.k[0, 2, :, :2] = 900 * turned.roll(1, 0), turned  # the key before
    view.q[0, 2, 0, :2] = 0
    words = [str(i) for i in range(n)]
    one = Overview(Part("decoder", words, words, [view], torch.arange(n)))
    one.more(always)
    assert one.patterns() == [["diffuse", "sink", "previous"]]
    assert set(one.patterns()[0]) < set(PATTERNS)
    assert one.statistics()["induction"] == [[None] * 3]  # no token came before


def test_small_pictures_hold_the_largest_weight_of_each_bin() -> None:
    scene = recording(70, layers=3)
    answer = scene.ask("overview", {"stack": "decoder"})
    head = answer.head
    assert (head["rows"], head["columns"], head["done"], head["pooling"], head["progress"]) == (24, 24, True, "max", 1)
    assert len(answer.data) == 3 * 2 * 24 * 24
    found = torch.frombuffer(bytearray(answer.data), dtype=torch.uint8).view(3, 2, 24, 24)
    for layer, view in enumerate(scene.shown.reading.parts[0].layers):
        dense = view.dense()[0].masked_fill(torch.ones(70, 70).triu(1).bool(), -1)
        padded = torch.nn.functional.pad(dense, (0, 2, 0, 2), value=-1)
        right = codes(padded.unflatten(-1, (24, 3)).unflatten(1, (24, 3)).amax((2, 4)))
        assert (found[layer].int() - right.int()).abs().max() <= 1  # half a step may round either way


def test_a_long_text_fills_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "AT_ONCE", 10**5)
    monkeypatch.setattr(overview, "FIRST", 0.0)
    monkeypatch.setattr(overview, "SLICE", 0.0)
    scene = recording(700, layers=3)
    asked = [scene.ask("overview", {"stack": "decoder"})]
    assert asked[0].head["pooling"] == "sampled"
    assert asked[0].head["patterns"][2] == ["unknown", "unknown"]
    assert asked[0].head["statistics"]["entropy"][2] == [None, None]
    while not asked[-1].head["done"]:
        asked.append(scene.ask("overview", {"stack": "decoder"}))
    progress = [answer.head["progress"] for answer in asked]
    assert progress == sorted(progress)
    assert progress[0] == 0.0
    assert progress[-1] == 1.0
    assert len(set(progress)) > 5
    first = next(answer for answer in asked if "unknown" not in answer.head["patterns"][2])
    assert first.head["progress"] < 0.1  # every head was sampled before the first was gone through
    right = scene.shown.reading.parts[0].layers[1].entropy()[0].mean(-1).tolist()
    assert asked[-1].head["statistics"]["entropy"][1] == pytest.approx(right, rel=1e-5)
    assert first.head["statistics"]["entropy"][1] == pytest.approx(right, rel=0.2)  # 32 of 700 queries
    assert asked[-1].head["pooling"] == "max"
    assert len({len(answer.data) for answer in asked}) == 1


def test_sampled_pictures_first_at_32768_tokens_and_no_memory_for_all_weights() -> None:
    n = 32768
    scene = recording(n, layers=1)
    with Largest() as seen:
        answer = scene.ask("overview", {"stack": "decoder"})
        while "unknown" in answer.head["patterns"][0]:
            answer = scene.ask("overview", {"stack": "decoder"})
        scene.ask("row", {"stack": "decoder", "layer": 0, "head": 1, "query": n - 1})
    assert answer.head["done"] is False
    assert seen.numel <= 2**20 < n * n / 1000


def test_who_stops_can_go_on() -> None:
    scene, calls = recording(300, layers=2), []

    def going() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        scene.ask("overview", {"stack": "decoder"}, going)
    answer = scene.ask("overview", {"stack": "decoder"}, going)
    assert answer.head["done"]
    right = scene.shown.reading.parts[0].layers[0].entropy()[0].mean(-1).tolist()
    assert answer.head["statistics"]["entropy"][0] == pytest.approx(right, rel=1e-5)
