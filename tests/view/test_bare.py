"""What is sent of the sources: shorter, and still the same program."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files

import pytest

from clearhead.view import bare

SOURCE = """// a comment
/**
 * @param {number} a  of a = b
 */
const first = (a) => a + 1;
const second = { a: "x = y, // no comment", b: `${ first(1) === 2 ? "a, b" : "c" } = d` };
const third = "a//b".replace(/[/"'] = *x/g, "/* kept */") + 0.5 - -1;
async function wait() {
  for (const [x, y] of [[1, 2]]) {
    if (x < y) return x / y; // why
  }
  return "none";
}
const nested = {
  deep: (list) => {
    const one = { two: [2] };
    const [two] = one.two;
    return list.map((a) => { const b = a; return b + two; });
  },
};
const sum = nested.deep([1, 2]);
let changed = 0;
const after = changed + 1;
const last = [first(1), second.a, second.b, third, typeof wait, sum, after];
"""


def run(code: str) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    return subprocess.run(
        [node, "-e", f"{code}console.log(JSON.stringify(last))"], capture_output=True, text=True
    ).stdout


def test_a_script_becomes_shorter_and_does_the_same() -> None:
    short = bare.script(SOURCE)
    assert "comment\n" not in short
    assert len(short) < 0.8 * len(SOURCE)
    assert run(short) == run(SOURCE) != ""
    assert '"x = y, // no comment"' in short
    assert "/[/\"'] = *x/g" in short
    assert len(re.findall(r"\blet\b", short)) == 5  # of 13: what follows another declaration is part of it


def test_no_text_is_lost() -> None:
    """Every string of each section is still there."""
    for file in (files("clearhead.view") / "static").iterdir():
        if file.name.endswith(".js"):
            text = re.sub(r"^\s*(//.*|/\*[\s\S]*?\*/)\s*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            strings = re.findall(r'"(?:[^"\\\n]|\\.)*"', re.sub(r"//.*", "", text))
            short = bare.script(text)
            assert [one for one in strings if "`" not in one and "${" not in one and one not in short] == [], file.name


def test_a_style_sheet() -> None:
    assert (
        bare.style("/* a */\n.a > .b:hover {\n  color: red; margin: 0 1px;\n}\n")
        == ".a>.b:hover{color:red;margin:0 1px}"
    )
