"""Any value in any place of config.json: a model, or one sentence that says what is wrong. Nothing large is made."""

import json
import resource
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import clearhead
from truth.cases import case

QUICK = ["gpt2", "t5"]
SLOW = ["llama, bands", "gemma3", "phi3, longrope", "albert", "modernbert", "marian", "whisper"]
SLOW += ["BertForSequenceClassification"]
KINDS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
VALUES: list[Any] = ["x", "7", -1, 0, 1.5, True, [], {}, [1, "x"], {"x": 1}, 10**8, 10**13]
ROOM = 2 << 30  # bytes of memory that loading may add


@pytest.fixture(autouse=True)
def _little_memory() -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def load(folder: Path, content: dict[str, Any]) -> str | None:
    (folder / "config.json").write_text(json.dumps(content))
    try:
        clearhead.load(folder)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory in use is known on Linux only")
@pytest.mark.parametrize("name", KINDS)
def test_every_setting_with_every_kind_of_value(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(case(name).folder, tmp_path / "m"))
    content = json.loads((folder / "config.json").read_text())
    refused = 0
    for key in content:
        for value in VALUES:
            said = load(folder, {**content, key: value})
            assert said is None or (said and "\n" not in said and len(said) < 4000), (key, value, said)
            refused += said is not None
    assert load(folder, content) is None
    assert refused > len(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_embd": "20"}, r"config.json sets n_embd to the text '20'; write the number without quotes"),
        ({"n_layer": 10**9}, r"config.json sets n_layer to 1000000000, but the file has 40 tensors"),
        ({"n_embd": 25.0}, r"config\.dim is 25\.0; expected int"),
        ({"n_embd": [20]}, r"config.json has a setting of a kind that this family cannot use \(TypeError"),
        (
            {"num_labels": 10**9, "architectures": ["GPT2ForSequenceClassification"]},
            "num_labels to 1000000000, but",
        ),
    ],
)
def test_what_is_said(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(case("gpt2").folder, tmp_path / "m"))
    content = json.loads((folder / "config.json").read_text())
    with pytest.raises(ValueError, match=message):
        raise ValueError(load(folder, {**content, **changes}))


def test_our_own_format_is_not_unfolded_without_end(tmp_path: Path) -> None:
    from clearhead.families.load import save
    from clearhead.families.presets import small_lm
    from clearhead.model.transformer import Transformer

    save(Transformer(small_lm(29, 64)), tmp_path / "m")
    content = json.loads((tmp_path / "m" / "config.json").read_text())
    content["decoder"]["layers"][0]["times"] = 10**10
    with pytest.raises(ValueError, match=r"config.decoder.layers\[0\].times is 10000000000; at most 10000"):
        raise ValueError(load(tmp_path / "m", content))
