"""Files that misbehave give one plain sentence; the worker goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.checker.client import Worker

RIGHT = """
import numpy as np
def attention(Q, K, V):
    s = Q @ K.T / np.sqrt(Q.shape[1])
    w = np.exp(s - s.max(1, keepdims=True))
    return (w / w.sum(1, keepdims=True)) @ V
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(seconds=3, memory=1 << 30) as made:
        yield made


def ask(worker: Worker, folder: Path, text: str) -> dict[str, object]:
    path = folder / "attempt.py"
    path.write_text(text)
    return worker.ask(str(path), {})[0]


BAD = {
    "endless loop at import": (RIGHT + "while True: pass", "longer than"),
    "endless loop when called": ("def attention(Q, K, V):\n    while True: pass", "longer than"),
    "sys.exit": ("import sys\nsys.exit(3)\n" + RIGHT, "sys.exit"),
    "os._exit": ("import os\nos._exit(3)", "ended the process"),
    "os._exit when called": ("import os\ndef attention(Q, K, V): os._exit(3)", "ended the process"),
    "crash": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "crashed"),
    "input": ("n = input('how many? ')\n" + RIGHT, "input()"),
    "print storm": ("while True: print('x' * 1000)", "longer than"),
    "import error": ("import no_such_library\n" + RIGHT, "no_such_library"),
    "exception": ("x = 1 / 0\n" + RIGHT, "line 1"),
    "memory": ("import numpy\nx = numpy.ones(1 << 34)\n" + RIGHT, "emory"),
    "syntax": ("def attention(Q, K, V:\n    pass", "syntax error in line 1"),
    "nothing to call": ("x = 3", "nothing that looks like"),
    "wrong arity": ("def attention(Q): return Q", "queries, keys and values"),
    "always fails": ("def attention(Q, K, V): raise KeyError('x')", "KeyError"),
    "returns nothing": ("def attention(Q, K, V): return None", "no numbers"),
    "candidates": (RIGHT + RIGHT.replace("def attention", "def attention_two"), "several candidates"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_plain_sentence(name: str, worker: Worker, tmp_path: Path) -> None:
    text, words = BAD[name]
    verdict = ask(worker, tmp_path, text)
    assert verdict.get("passed") is None
    assert words in str(verdict["error"])
    assert ask(worker, tmp_path, RIGHT)["passed"] is True  # the worker goes on


def test_output_of_the_file_goes_nowhere(worker: Worker, tmp_path: Path) -> None:
    noisy = "print('at import')\n" + RIGHT.replace("    s =", "    print('called')\n    s =")
    assert ask(worker, tmp_path, noisy)["passed"] is True


def test_no_such_file(worker: Worker, tmp_path: Path) -> None:
    assert "there is no file" in worker.ask(str(tmp_path / "none.py"), {})[0]["error"]
