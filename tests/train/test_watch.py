"""What a run leaves to look at: a line per step, curves, samples, where heads look, and a page."""

import json
import re
import signal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead.families.load import load
from clearhead.lens.inputs import arguments
from clearhead.lens.record import record
from clearhead.train import watch
from clearhead.train.folder import read_log
from clearhead.train.page import MOST, chart, page
from clearhead.train.run import run
from clearhead.train.watch import SAMPLES, SNAPSHOTS
from train.runs import recipe_for, text_in

BEFORE = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}  # ignored in the background


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("watched")
    recipe = recipe_for(
        text_in(place),
        watch={
            "evaluate_every": 3,
            "sample_every": 4,
            "prompts": ["line 1"],
            "probes": ["line 7 of", "small"],
            "probe_steps": [2, 6],
            "tensorboard": True,
        },
    )
    run(recipe, place / "run")
    return place / "run"


def test_every_step_has_a_line_and_evaluations_have_a_loss(folder: Path) -> None:
    log = read_log(folder)
    assert [line["step"] for line in log] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in log if "validation_loss" in line] == [3, 6]
    assert all(line["norm"] > 0 and line["tokens"] == 64 and line["seconds"] > 0 for line in log)


def test_trn_16_an_alarm_is_logged_and_said_but_not_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "alarms", lambda model, batch: ["it says one thing"])
    run(recipe_for(text_in(tmp_path), steps=20, watch={"evaluate_every": 2}), tmp_path / "run")
    alarmed = [line["step"] for line in read_log(tmp_path / "run") if line.get("alarms") == ["it says one thing"]]
    assert alarmed == list(range(4, 21, 2))
    assert "step 4: it says one thing" in caplog.text
    assert "step 2:" not in caplog.text
    assert "step 20: it says one thing" in (tmp_path / "run" / "report.html").read_text()


def test_samples_are_written_when_asked(folder: Path) -> None:
    (sample,) = read_log(folder, SAMPLES)
    assert sample["step"] == 4
    assert sample["sample"].startswith("line 1")


def test_a_snapshot_is_what_a_recording_shows(folder: Path) -> None:
    assert sorted(place.name for place in (folder / SNAPSHOTS).iterdir()) == ["00000002", "00000006"]
    place = folder / SNAPSHOTS / "00000006"
    said = json.loads((place / "texts.json").read_text())
    assert said["step"] == 6
    assert [one["text"] for one in said["texts"]] == ["line 7 of", "small"]
    tensors = load_file(place / "heads.safetensors")
    model = load(folder)
    with record(model, "decoder.0.self.weights") as seen:
        model(**arguments(model, "line 7 of"))
    view = seen["decoder.0.self.weights"]
    tokens = said["texts"][0]["tokens"]["decoder"]
    assert "".join(tokens[-9:]) == "line 7 of"
    assert tensors["0.decoder.0.self.entropy"].shape == (1, len(tokens))
    assert torch.allclose(tensors["0.decoder.0.self.entropy"], view.entropy()[0], atol=1e-6)
    assert torch.equal(tensors["0.decoder.0.self.keys"], view.top(8)[1][0])
    assert tensors["1.decoder.0.self.top"].shape == (1, 5, 5), "no more keys than there are"


def test_curves_are_there_for_tensorboard(folder: Path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = event_accumulator.EventAccumulator(str(folder / "tensorboard")).Reload()
    log = read_log(folder)
    assert {"loss", "rate", "norm", "validation_loss"} <= set(found.Tags()["scalars"])
    assert [event.value for event in found.Scalars("loss")] == pytest.approx([line["loss"] for line in log], rel=1e-6)


@pytest.mark.parametrize(("field", "text"), [("probes", "?"), ("prompts", "?"), ("probes", "")])
def test_trn_08_a_probe_that_cannot_be_read_is_refused_before_the_first_step(
    tmp_path: Path, field: str, text: str
) -> None:
    with pytest.raises(ValueError, match=rf"watch\.{field}.*({re.escape(repr(text))}).*(unknown|no token)"):
        run(recipe_for(text_in(tmp_path), watch={field: [text], "probe_steps": [1]}), tmp_path / "run")


def test_signals_are_as_before_after_a_run(folder: Path) -> None:
    assert {number: signal.getsignal(number) for number in BEFORE} == BEFORE


class Outline(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.policy, self.words = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [given[name] or "" for name in ("src", "href") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_tells_the_run_and_loads_nothing(folder: Path) -> None:
    found = Outline((folder / "report.html").read_text(encoding="utf-8"))
    report = json.loads((folder / "report.json").read_text())
    assert found.policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert found.links == []
    assert "script" not in found.tags
    assert found.tags.count("svg") == 3
    for words in (f"{report['validation_loss']:.4g}", "evaluate_every: 3", "step 4", torch.__version__):
        assert words in found.words, words


def test_text_of_a_run_never_becomes_markup() -> None:
    evil = "</pre><script>alert(1)</script>&amp;"
    report: dict[str, Any] = {"parameters": 1, "steps": 1, "tokens": 1, "train_seconds": 1.0}
    report |= {"samples": [{"given": evil, "sample": evil + evil, "target": evil}]}
    log = [{"step": 1, "loss": 1.0, "rate": 1.0, "tokens": 1, "seconds": 1.0, "alarms": [evil]}]
    found = Outline(page(evil, report, log, [{"step": 0, "given": evil, "sample": evil}], evil, {evil: evil}))
    assert "script" not in found.tags
    assert found.words.count(evil) >= 9


def test_a_chart_has_few_points_and_skips_what_is_not_finite() -> None:
    points = [(float(i), float("nan") if i == 3 else 1.0 / (i + 1)) for i in range(5000)]
    drawn = chart(points, [(10.0, 0.5), (4999.0, 0.25)])
    (line, second) = re.findall(r'points="([^"]*)"', drawn)
    assert len(line.split()) <= MOST
    assert len(second.split()) == drawn.count("<circle") == 2
    assert "nan" not in drawn
    assert chart([]) == ""
    assert chart([(1.0, 2.0)]).count("polyline") == 2, "one point is a chart too"
