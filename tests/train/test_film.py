"""The film of a run: made of its snapshots and its log, exact or rounded, written when training ends."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from clearhead.cli import main
from clearhead.families.load import load
from clearhead.families.store import new_folder, write_json, write_tensors
from clearhead.lens.inputs import arguments
from clearhead.lens.record import record
from clearhead.train.film import FILE, write
from clearhead.train.folder import read_log
from clearhead.train.recipe import recipe_of
from clearhead.train.run import run
from clearhead.train.snapshot import SHORT, SNAPSHOTS, snapshot
from clearhead.view.overview import Overview
from clearhead.view.pooling import decoded
from clearhead.view.reading import always, read
from train.runs import recipe_for, text_in
from view.scenes import translator, writer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("film")
    watch = {"evaluate_every": 3, "probes": ["line 7 of 9", "small"], "probe_steps": [2, 4, 6]}
    run(recipe_for(text_in(place), watch=watch), place / "run")
    return place / "run"


def given(page: Path) -> tuple[dict[str, Any], bytes]:
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="film">(.*?)</script>', text)
    found = json.loads(data)
    return found, zlib.decompress(base64.b64decode(found["data"]), wbits=-15)


def test_a_run_that_ends_has_written_its_film(folder: Path) -> None:
    found, held = given(folder / FILE)
    assert found["steps"] == [2, 4, 6]
    assert found["loss"] == [[line["step"], line["loss"]] for line in read_log(folder)]
    assert [step for step, _ in found["validation"]] == [3, 6]
    assert [text["text"] for text in found["texts"]] == ["line 7 of 9", "small"]
    model = load(folder)
    with record(model, "decoder.0.self.weights") as seen:
        model(**arguments(model, "line 7 of 9"))
    part = found["texts"][0]["frames"][2]["parts"]["decoder"]
    count = len(part["keys"])
    weights = np.frombuffer(held, "<f4", count * count, part["start"]).reshape(count, count)
    want = seen["decoder.0.self.weights"].dense()[0, 0].numpy()
    assert np.allclose(np.tril(weights), want, atol=1e-6)
    assert (weights[np.triu_indices(count, 1)] == -1).all()


def test_statistics_and_patterns_are_the_views(folder: Path) -> None:
    reading = read(load(folder), "line 7 of 9")
    overview = Overview(reading.parts[0])
    overview.more(always)
    part = given(folder / FILE)[0]["texts"][0]["frames"][2]["parts"]["decoder"]
    assert part["patterns"] == overview.patterns()
    for name, rows in overview.statistics().items():
        for shown, row in zip(part["statistics"][name], rows, strict=True):
            assert shown == pytest.approx(row, abs=1e-6)


def filmed(place: Path, shots: dict[int, Any], losses: list[float]) -> Path:
    """A folder as a run leaves it. shots: by step what `snapshot` gave."""
    place.mkdir()
    for step, (tensors, texts) in shots.items():
        with new_folder(place / SNAPSHOTS / f"{step:08}") as fresh:
            write_tensors(fresh / "heads.safetensors", tensors)
            write_json(fresh / "texts.json", {"step": step, "texts": texts})
    lines = [json.dumps({"step": i + 1, "loss": loss}) for i, loss in enumerate(losses)]
    (place / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def test_a_translator_writes_other_words_at_each_step(tmp_path: Path) -> None:
    shots: dict[int, Any] = {}
    for step in (1, 9):
        model = translator()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 0.1 * step)
        shots[step] = snapshot(model, ["the cat"])
    found, held = given(write(filmed(tmp_path / "run", shots, [2.0, float("nan"), 1.0])))
    assert found["loss"] == [[1, 2.0], [3, 1.0]]
    for step, frame in zip((1, 9), found["texts"][0]["frames"], strict=True):
        assert [*frame["parts"]] == ["encoder", "decoder", "cross"]
        cross = frame["parts"]["cross"]
        assert cross["queries"] == frame["parts"]["decoder"]["queries"]
        assert cross["keys"] == frame["parts"]["encoder"]["keys"]
        size = len(cross["queries"]) * len(cross["keys"])
        weights = np.frombuffer(held, "<f4", size, cross["start"] + 4 * size * 4).reshape(len(cross["queries"]), -1)
        assert np.array_equal(weights, shots[step][0]["0.decoder.1.cross.weights"][1].numpy())


def test_the_film_of_four_by_four_heads_is_small(tmp_path: Path) -> None:
    """20 steps, 24 tokens: at most 2 MB with exact weights."""
    (said,) = snapshot(writer(), ["what one reads is what o"])[1]
    assert len(said["tokens"]["decoder"]) == 24
    torch.manual_seed(0)
    shots: dict[int, Any] = {}
    for step in range(20):
        weights = torch.randn(4, 4, 24, 24).add(torch.full((24, 24), -torch.inf).triu(1)).softmax(-1)
        weights = weights.where(torch.ones(24, 24, dtype=torch.bool).tril(), -1)
        layers = {f"0.decoder.{i}.self.weights": layer for i, layer in enumerate(weights)}
        statistics = {name: rows[:1] * 4 for name, rows in said["statistics"]["decoder"].items()}
        one = {**said, "patterns": {"decoder": [["mixed"] * 4] * 4}, "statistics": {"decoder": statistics}}
        shots[step] = (layers, [one])
    page = write(filmed(tmp_path / "run", shots, [1.0] * 2000))
    found, _ = given(page)
    assert found["exact"]
    assert page.stat().st_size <= 2_000_000
    assert len(found["loss"]) <= 600


def test_where_there_is_no_room_it_is_rounded(folder: Path, tmp_path: Path) -> None:
    exact = write(folder, tmp_path / "exact.html")
    small = write(folder, tmp_path / "small.html", max_mb=(exact.stat().st_size - 1) / 1e6)
    (one, held), (other, codes) = given(exact), given(small)
    assert (one["exact"], other["exact"]) == (True, False)
    weights, rounded = np.frombuffer(held, "<f4"), decoded(torch.tensor(list(codes), dtype=torch.uint8)).numpy()
    assert len(weights) == len(rounded)
    assert np.abs(np.sqrt(weights.clip(0)) - np.sqrt(rounded.clip(0))).max() <= 0.5 / 253 + 1e-6
    with pytest.raises(ValueError, match=r"the film takes 0\.1 MB, max_mb is 0\.01; give more"):
        write(folder, tmp_path / "none.html", max_mb=0.01)


def test_what_makes_no_film_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no snapshots; give its recipe watch\.probes and watch\.probe_steps"):
        write(tmp_path)
    with pytest.raises(ValueError, match="is no folder; make it first"):
        write(folder, tmp_path / "no" / "film.html")
    long = filmed(tmp_path / "long", {1: snapshot(writer(), ["ab" * 40])}, [1.0])
    with pytest.raises(ValueError, match=f"all probes have more than {SHORT} tokens"):
        write(long)
    old = filmed(tmp_path / "old", {1: ({"x": torch.zeros(1)}, [{"text": "a"}])}, [1.0])
    with pytest.raises(ValueError, match="was written by an older version"):
        write(old)


def test_a_film_that_cannot_be_made_stops_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = {"probes": ["line 7 of " * 9], "probe_steps": [1]}
    report = run(recipe_for(text_in(tmp_path), steps=2, watch=watch), tmp_path / "run")
    assert report is not None
    assert "no film.html: all probes have more than 64 tokens" in caplog.text


def test_the_recipe_of_the_docs_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "view.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    recipe = recipe_of(yaml.safe_load(text))
    assert recipe.watch.probes == ("to be or not to be",)
    assert recipe.watch.probe_steps[-1] == 256


def test_the_verb(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    page = tmp_path / "film.html"
    monkeypatch.setattr("sys.argv", ["clearhead", "film", str(folder), "--html", str(page)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert capsys.readouterr().out == f"{page} shows it\n"
    assert given(page) == given(folder / FILE)
