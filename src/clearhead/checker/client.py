"""The side of the worker that the command line and notebooks hold: start it, ask it, replace it when it died."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any

MEMORY = 4 * 2**30  # bytes a file may use beyond torch itself


class Worker:
    """A worker process, as a context. It starts with the first question."""

    def __init__(self, seconds: float = 10.0, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.close()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None

    def ask(self, path: str, flags: dict[str, Any], every: bool = False) -> list[dict[str, Any]]:
        """The verdicts on one file, as dictionaries; a dead worker is one with an error."""
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "clearhead.checker.worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"path": path, "flags": flags, "every": every, "seconds": self.seconds, "memory": self.memory}
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer) if answer else [{"error": "the worker process ended unexpectedly"}]
