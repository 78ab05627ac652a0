"""The command line as a person meets it: help, answers, and one plain sentence for a mistake."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import clearhead
from clearhead.cli import main
from clearhead.cli.diagnosis import print_diagnosis
from clearhead.config import Attention, FeedForward, Layer, Positions, Stack, TransformerConfig
from clearhead.model.transformer import Transformer
from clearhead.text.build import word_tokenizer
from clearhead.text.pair import Pair
from clearhead.train.doctor import Diagnosis
from clearhead.train.examine import Finding
from clearhead.train.recipe import Recipe, fields

VERBS = [
    *("lesson", "check", "exercise", "laws", "demo", "translate", "complete", "describe", "look", "explain"),
    *("verify", "convert", "serve", "classify"),
]


class Said(NamedTuple):
    """What a call printed, and its exit status."""

    stdout: str
    stderr: str
    returncode: int


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`clearhead` with these words, in this process."""

    def run(*words: object, given: str = "") -> Said:
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        return Said(*capsys.readouterr(), status)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that has learned nothing."""
    look = Attention(heads=2)
    reader = Layer(self_attention=look, feed_forward=FeedForward(dim=8))
    own = Attention(heads=2, causal=True)
    writer = Layer(self_attention=own, feed_forward=FeedForward(dim=8), cross_attention=look)
    places = Positions(kind="learned", count=12)
    config = TransformerConfig(
        dim=8,
        encoder=Stack(layers=(reader,), vocab=5, positions=places),
        decoder=Stack(layers=(writer,), vocab=6, positions=places),
        pad=0,
        bos=1,
        eos=2,
    )
    model = Transformer(config)
    model.tokenizer = Pair(word_tokenizer(["one two"], eos=True), word_tokenizer(["un deux trois"], bos=True, eos=True))
    place = tmp_path_factory.mktemp("cli") / "model"
    clearhead.save(model, place)
    return place


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, call: Callable[..., Said]) -> None:
    shown = call(verb, "--help")
    assert shown.returncode == 0
    assert f"Example: clearhead {verb}" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("words", ["train", *(f"train {verb}" for verb in ("lm", "translate", "mlm", "span", "run"))])
def test_train_and_its_verbs_have_help_with_an_example(words: str, call: Callable[..., Said]) -> None:
    shown = call(*words.split(), "--help")
    assert shown.returncode == 0
    assert f"Example: clearhead {words}" in " ".join(shown.stdout.split())


def test_help_and_version_need_no_torch(call: Callable[..., Said]) -> None:
    code = (
        "import sys; sys.argv = ['clearhead', '--help']\n"
        "from clearhead.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'imported'\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert all(verb in shown.stdout for verb in VERBS)
    assert call("--version").stdout.strip() == clearhead.__version__


def test_import_clearhead_needs_no_torch() -> None:
    code = (
        "import sys, clearhead; assert 'torch' not in sys.modules; clearhead.attention; assert 'torch' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_can_be_had() -> None:
    assert all(getattr(clearhead, name) is not None for name in clearhead.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'atention'"):
        clearhead.atention  # noqa: B018


def test_the_lesson_prints_its_digits_and_json(call: Callable[..., Said]) -> None:
    assert "0.509" in call("lesson").stdout
    found = json.loads(call("lesson", "positions", "--json").stdout)
    assert found["positional_encoding_5x8"][1][0] == pytest.approx(0.841470984807897)


def test_a_pipe_gets_plain_text() -> None:
    piped = subprocess.run([sys.executable, "-m", "clearhead", "lesson"], capture_output=True, text=True)
    assert "0.509" in piped.stdout
    assert "\x1b" not in piped.stdout


def test_translate_an_argument_and_lines_with_an_empty_one_between(folder: Path, call: Callable[..., Said]) -> None:
    one = call("translate", folder, "one two", "--max-new-tokens", "3")
    assert one.returncode == 0
    assert one.stdout.count("\n") == 1
    lines = call("translate", folder, "--max-new-tokens", "3", given="one two\n\none\n")
    assert lines.returncode == 0
    assert lines.stdout.split("\n")[0] == one.stdout.strip("\n")
    assert lines.stdout.split("\n")[1] == ""
    assert lines.stdout.count("\n") == 3


def test_describe_in_words_and_json(folder: Path, call: Callable[..., Said]) -> None:
    text = call("describe", folder).stdout
    assert "encoder-decoder" in text
    assert "1 x layer" in text
    found = json.loads(call("describe", folder, "--json").stdout)
    assert found["config"]["dim"] == 8
    assert "decoder.0.cross.weights" in found["sites"]


def test_convert_and_verify(folder: Path, tmp_path: Path, call: Callable[..., Said]) -> None:
    assert call("verify", folder).returncode == 2, "there is nothing to compare with"
    made = call("convert", folder, tmp_path / "out", "--dtype", "bfloat16")
    assert (made.returncode, made.stdout) == (0, "")
    found = call("verify", tmp_path / "out", "--json")
    assert found.returncode == 0
    assert json.loads(found.stdout)["equal"] is True
    config = tmp_path / "out" / "config.json"
    config.write_text(config.read_text().replace('"eps": 1e-05', '"eps": 0.5'))
    changed = call("verify", tmp_path / "out")
    assert changed.returncode == 1
    assert "norm.eps 0.5 in place of 1e-05" in changed.stdout


@pytest.mark.parametrize(
    ("words", "given", "sentence"),
    [
        (["convert", "nowhere", "out"], "", "nowhere is not a folder"),
        (["convert", "MODEL", "out", "--dtype", "int8"], "", "dtype 'int8' is not known"),
        (["translate", "MODEL", "one three"], "", "'three' is unknown"),
        (["translate", "MODEL", ""], "", "the text is empty"),
        (["translate", "nowhere", "one"], "", "nowhere is not a folder"),
        (
            ["translate", "MODEL", "one", "--tgt-lang", "de"],
            "",
            "tgt_lang is 'de', but this tokenizer puts no language",
        ),
        (["translate", "MODEL", "one", "--dtype", "int8"], "", "dtype 'int8' is not known"),
        (["translate", "MODEL", "one", "--device", "abacus"], "", "device 'abacus' cannot be used here"),
        (["translate", "MODEL"], "one\nfour\n", "line 2: "),
        (["complete", "MODEL", "one"], "", "translate"),
        (["lesson", "atention"], "", "did you mean 'attention'"),
        (["describe", "nowhere"], "", "nowhere is not a folder"),
        (["demo", "--kind", "lm", "--target", "letters"], "", "letters are for kind='translation'"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(
    words: list[str], given: str, sentence: str, folder: Path, call: Callable[..., Said]
) -> None:
    failed = call(*[folder if word == "MODEL" else word for word in words], given=given)
    assert failed.returncode == 2
    assert sentence in failed.stderr
    assert "Traceback" not in failed.stderr
    assert len(failed.stderr.strip().split("\n")) == 1


RIGHT = """import torch
def attention(Q, K, V):
    return torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, dim=-1) @ V
"""


def test_train_two_steps_then_complete(call: Callable[..., Said], tmp_path: Path) -> None:
    book, out = tmp_path / "book.txt", tmp_path / "run"
    book.write_text("a cat and a dog and a cat\n" * 20)
    found = call("train", "lm", book, "--out", out, "--steps", "2", "--threads", "1")
    assert found.returncode == 0, found.stderr
    assert "bits per byte" in found.stdout
    assert "tokens/s" in found.stderr
    assert call("complete", out, "a cat").stdout.startswith("a cat")
    again = call("train", "lm", book, "--out", out, "--steps", "2", "--resume", "--json")
    assert json.loads(again.stdout)["steps"] == 2


def test_every_field_of_a_recipe_is_in_the_help(call: Callable[..., Said]) -> None:
    shown = call("train", "run", "--help").stdout
    for name, value, one in fields(Recipe()):
        text = one.metadata["text"].split(" ")[0]
        assert any(line.strip().startswith(f"{name}: ") and text in line for line in shown.split("\n")), (name, value)
    assert "optimizer: {adamw: 1e-3}" in shown


def test_train_run_a_recipe_look_at_its_data_and_score_it(call: Callable[..., Said], tmp_path: Path) -> None:
    book, recipe = tmp_path / "book.csv", tmp_path / "recipe.yaml"
    book.write_text("text\n" + "a cat and a dog\n" * 30 + "a cow and a cat\n" * 3)
    recipe.write_text(
        f"data: {{train: {book}}}\nmodel: {{dim: 64, layers: 1}}\nbatch: {{block: 8, pack: true}}\nsteps: 2\n"
    )
    looked = call("doctor", recipe, "--quick", "--json")
    assert looked.returncode == 1
    assert [one["level"] for one in json.loads(looked.stdout)["findings"]] == ["fault", "note", "note"]
    assert call("doctor", recipe, "--quick").stdout.strip().endswith("1 to mend")
    found = call("train", "run", recipe, "--out", tmp_path / "run", "--threads", "1", "--json")
    assert found.returncode == 0, found.stderr
    scored = call("score", tmp_path / "run", book, "--json")
    assert json.loads(scored.stdout)["tokens"] > 100
    assert "bits per byte" in call("score", tmp_path / "run", book).stdout
    text = tmp_path / "clean.txt"
    text.write_text("\n".join(f"line {i} of it" for i in range(60)))
    clean = call("doctor", text, "--quick")
    assert (clean.returncode, clean.stdout.strip().split("\n")[-1]) == (0, "nothing to mend")


def test_files_that_cannot_be_trained_on_are_refused_before_torch_is_imported(tmp_path: Path) -> None:
    for name, lines in (("empty", 0), ("two", 2), ("three", 3)):
        (tmp_path / name).write_text("a line\n" * lines)
    code = (
        "import sys\nfrom clearhead.cli import main\n"
        "for words in (['lm', 'empty'], ['mlm', 'nowhere'], ['translate', 'two', 'three']):\n"
        "    sys.argv = ['clearhead', 'train', *words, '--out', 'run', '--threads', '1']\n"
        "    try:\n        main()\n    except SystemExit as error:\n        print(error.code)\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["2", "2", "2", "False"], done.stderr
    assert done.stderr.split("\n")[:2] == [
        "clearhead: empty is empty; give some text",
        "clearhead: nowhere cannot be read: No such file or directory; give a file",
    ]
    assert "two has 2 lines but three has 3" in done.stderr


def test_the_doctor_gives_numbers_with_units_side_by_side_in_any_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    side = {"tokens": 7837, "per_row": 11.0, "longest": 1839, "largest_id": 511, "vocabulary": 512, "unknown": 0.0123}
    facts = {"task": "translate", "rows": 380, "source": side, "target": {**side, "tokens": 84080}, "steps": 200}
    facts |= {"seconds_per_step": 0.6617, "seconds": 4322.0, "memory_gb": 0.591, "padding": 0.1797, "other_part": 3}
    long = Finding("fault", "1 row without a text on some side (row 10); take them out of it")
    monkeypatch.setenv("COLUMNS", "50")
    for terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        print_diagnosis(Diagnosis(facts, [long]))
        lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
        table, findings = lines[: lines.index("")], lines[lines.index("") + 1 :]
        assert "tokens                          7,837  84,080" in table
        assert "unknown tokens                 1.23 %  1.23 %" in table
        assert "time of all steps          1 h 12 min" in table
        assert "other part                          3" in table
        assert max(map(len, table)) <= 50
        assert not [line for line in table if "_" in line]
        wrapped = ["fault: 1 row without a text on some side (row 10);", "  take them out of it"]
        assert findings == [*(wrapped if terminal else ["fault: " + long.what]), "1 to mend", ""]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lm", "nowhere"], "nowhere cannot be read: No such file or directory"),
        (["lm", "no/where.txt"], "no/where.txt cannot be read: No such file or directory"),
        (["run", "nowhere"], "nowhere cannot be read: No such file or directory; give a recipe in YAML"),
        (["run", "FAR"], "the text to train on has 9 tokens, but needs 70; give a longer text"),
        (["run", "RECIPE"], "recipe.stepz is not a field of Recipe; did you mean 'steps'?"),
        (["mlm", "SHORT"], "the text to train on has 1 tokens, but needs 64; give a longer text"),
        (["lm", "EMPTY"], "is empty; give some text"),
        (["lm", "SHORT"], "the text to train on has 9 tokens, but needs 65; give a longer text"),
        (["lm", "SHORT", "--from", "MODEL"], "the model is an encoder and a decoder, but lm needs a decoder alone"),
        (["lm", "SHORT", "--from", "nowhere"], "nowhere is not a folder"),
        (["lm", "SHORT", "--device", "abacus"], "device 'abacus' cannot be used here"),
        (["translate", "SHORT", "LINES"], "has 1 lines but"),
        (["translate", "SHORT", "SHORT"], "has 1 line; training and validation need at least 2"),
        (["translate", "LINES", "LINES", "--from", "MODEL"], "'a' is unknown"),
    ],
)
def test_train_refuses_what_it_cannot_use_in_one_sentence(
    words: list[str], sentence: str, folder: Path, tmp_path: Path, call: Callable[..., Said]
) -> None:
    known = {"EMPTY": "", "SHORT": "abcdefghij", "LINES": "a\nb\nc\n", "RECIPE": "stepz: 3\n"}
    known["FAR"] = f"data.train: {tmp_path / 'SHORT'}\nbatch.block: 69\n"
    for name, text in known.items():
        (tmp_path / name).write_text(text)
    names = {"MODEL": folder, **{name: tmp_path / name for name in known}}
    failed = call("train", *[names.get(word, word) for word in words], "--out", tmp_path / "out")
    assert failed.returncode == 2
    assert sentence in failed.stderr
    assert len(failed.stderr.strip().split("\n")) == 1
    assert failed.stdout == ""


def test_check_says_right_names_a_mistake_and_says_what_cannot_run(call: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(RIGHT.replace("dim=-1", "dim=-2"))
    (tmp_path / "broken.py").write_text("def attention(Q, K, V:\n")
    right, wrong, broken = (call("check", tmp_path / f"{name}.py", "--json") for name in ("right", "wrong", "broken"))
    assert (right.returncode, wrong.returncode, broken.returncode) == (0, 1, 2)
    assert json.loads(right.stdout)["passed"] is True
    assert json.loads(wrong.stdout)["mistakes"][0] == "softmax-dim-query"
    assert "line 1" in json.loads(broken.stdout)["error"]
    assert "softmax-dim-query" in call("check", tmp_path / "wrong.py").stdout


def test_laws_of_a_saved_model(call: Callable[..., Said], folder: Path) -> None:
    found = call("laws", folder)
    assert found.returncode == 0, found.stdout
    assert json.loads(call("laws", folder, "--json").stdout)
    assert call("laws", "nowhere").returncode == 2


def test_exercise_writes_a_stub_once(call: Callable[..., Said], tmp_path: Path) -> None:
    first = call("exercise", "sdpa", "--folder", tmp_path)
    assert first.returncode == 0
    (stub,) = tmp_path.glob("*.py")
    assert str(stub) in first.stdout
    again = call("exercise", "sdpa", "--folder", tmp_path)
    assert again.returncode == 2
    assert stub.name in again.stderr


def test_a_half_written_folder_is_named(folder: Path, tmp_path: Path, call: Callable[..., Said]) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_bytes((folder / "config.json").read_bytes())
    failed = call("describe", tmp_path / "half")
    assert failed.returncode == 2
    assert "model.safetensors is missing" in failed.stderr


def test_bytes_that_are_no_text_are_a_users_mistake(folder: Path) -> None:
    failed = subprocess.run(
        [sys.executable, "-m", "clearhead", "translate", str(folder)], input=b"one\n\xff\xfe\n", capture_output=True
    )
    assert failed.returncode == 2
    assert b"Traceback" not in failed.stderr


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    verb = f"{sys.executable} -m clearhead translate {folder} --max-new-tokens 2"
    line = f"yes one | {verb} | head -n 1; echo ${{PIPESTATUS[1]}}"
    found = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert found.stdout.split("\n")[1] == "0"
    assert "Traceback" not in found.stderr


def test_look_in_a_table_in_a_map_and_as_json(folder: Path, call: Callable[..., Said]) -> None:
    words = "one two"
    assert "entropy of each head" in call("look", str(folder), words).stdout
    assert "encoder, layer 0, head 1" in call("look", str(folder), words, "--heads", "0.1").stdout
    found = json.loads(call("look", str(folder), words, "--json", "--stat", "max", "--to", "deux").stdout)
    assert [part["name"] for part in found["parts"]] == ["encoder", "decoder", "cross"]
    said = call("look", str(folder), words, "--heads", "2")
    assert (said.returncode, said.stdout) == (2, "")
    assert "write layer.head, counted from 0, such as 5.3" in said.stderr


def test_look_as_a_page(folder: Path, call: Callable[..., Said], tmp_path: Path) -> None:
    page = tmp_path / "look.html"
    said = call("look", folder, "one two", "--to", "deux", "--html", page)
    assert said.stdout == f"{page} shows it\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    failed = call("look", folder, "one two", "--html", tmp_path / "nowhere" / "look.html")
    assert failed.returncode == 2
    assert "nowhere is no folder; make it first" in failed.stderr


SERVED = {
    "a text that it cannot read": (["three", "--port", "0"], "'three' is unknown"),
    "a port that there is not": (["--port", "70000"], "65535"),
    "a host that is not here": (["--host", "192.0.2.1", "--port", "0"], "cannot listen at 192.0.2.1:0"),
}


@pytest.mark.parametrize("name", SERVED)
def test_serve_refuses_in_one_sentence(name: str, folder: Path, call: Callable[..., Said]) -> None:
    words, sentence = SERVED[name]
    failed = call("serve", folder, *words, "--no-open")
    assert failed.returncode == 2
    assert sentence in failed.stderr


def test_explain_as_text_markdown_page_and_json(folder: Path, call: Callable[..., Said], tmp_path: Path) -> None:
    asked = ("explain", str(folder), "one two", "encoder.0.self.weights", "--head", "1", "--query", "0", "--key", "1")
    found = json.loads(call(*asked, "--json").stdout)
    assert abs(found["shown"] - found["value"]) < 1e-3
    assert f"weight = {found['shown']:.{found['decimals']}f}" in call(*asked).stdout
    assert "$$" in call(*asked, "--markdown").stdout
    assert "shows it" in call(*asked, "--html", str(tmp_path / "page.html")).stdout
    assert "<h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert call(*asked[:-1], "9").returncode == 2
    assert "key 9 of 3; use 0 to 2" in call(*asked[:-1], "9").stderr


def test_explain_the_worked_example(call: Callable[..., Said]) -> None:
    asked = ("encoder.0.self.weights", "--head", "0", "--query", "0", "--key", "2")
    assert "weight = 0.295" in call("explain", "lesson", "the cat sat", *asked).stdout
