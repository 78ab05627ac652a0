"""The process in which learners' files run: it has imported torch once and forks for every file.

It protects against accidents (endless loops, crashes, floods of output, memory), not against attackers.
Protocol: one JSON object a line on stdin (path, flags, every, seconds, memory), one JSON object a line on stdout.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

IMPORTED = "imported\n"  # a child writes this line first, when the file has been imported
MOST = 4_000_000  # bytes of one answer


def main() -> None:
    """Serves requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    importlib.import_module("clearhead.checker.flow")  # before the fork, for all files
    torch.set_num_threads(1)
    for line in sys.stdin:
        answers.write(json.dumps(serve(json.loads(line))) + "\n")
        answers.flush()


def serve(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs one file in a fork and waits for its answer, for its time at most."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run_child(request, writer)
    os.close(writer)
    text, late = collect(reader, request["seconds"])
    os.close(reader)
    return finish(child, text, late, request)


def collect(reader: int, seconds: float) -> tuple[bytes, bool]:
    """What the child wrote, and whether it was too slow. The clock starts anew when the import is done."""
    text, started, limit = b"", False, time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, limit - time.monotonic()))
        if not ready:
            return text, True
        part = os.read(reader, 65536)
        if not part or len(text) > MOST:
            return text, False
        text += part
        if not started and b"\n" in text:
            started, limit = True, time.monotonic() + seconds


def finish(child: int, text: bytes, late: bool, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The child's verdicts, or one plain sentence about how it ended. Nothing of the child is left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL) if late else None
    _, status = os.waitpid(child, 0)
    answer = text.decode(errors="replace")
    imported = answer.startswith(IMPORTED)
    answer = answer.removeprefix(IMPORTED)
    if answer.endswith("\n"):
        return json.loads(answer)
    if late:
        where = "while it was checked" if imported else "while it was imported (training code at the top level?)"
        return [{"error": f"it ran longer than {request['seconds']:g} s {where} and was stopped"}]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return [{"error": f"the code crashed the process ({signal.Signals(os.WTERMSIG(status)).name})"}]
    if os.WIFSIGNALED(status):
        return [{"error": "the process was killed, probably for its memory"}]
    return [{"error": f"the code ended the process itself (exit code {os.WEXITSTATUS(status)})"}]


def run_child(request: dict[str, Any], writer: int) -> None:
    """In the fork: no input, no output, limits; then the check. Never returns."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in ("r", "w", "w"))  # noqa: SIM115
    limit_memory(request["memory"])
    try:
        verdicts = check_file(request, lambda: os.write(writer, IMPORTED.encode()))
    except MemoryError:
        verdicts = [{"error": f"it needs more than {request['memory'] / 2**30:.3g} GiB of memory"}]
    except BaseException as error:
        verdicts = [{"error": f"the checker itself failed: {type(error).__name__}: {error}"}]
    with os.fdopen(writer, "wb") as out:
        out.write(json.dumps(verdicts, default=str).encode() + b"\n")
    os._exit(0)


def limit_memory(extra: int) -> None:
    """At most `extra` bytes more address space than now; no core files."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 26, 1 << 26))
        resource.setrlimit(resource.RLIMIT_AS, (now + extra, now + extra))


def check_file(request: dict[str, Any], imported: Any) -> list[dict[str, Any]]:
    """The verdicts on a file as plain data."""
    import torch

    from clearhead.checker import flow, subject
    from clearhead.checker.setup import Flags

    torch.manual_seed(0)
    try:
        loaded = subject.load(request["path"])
        imported()
        found = flow.check_subject(loaded, Flags(**request["flags"]), request["every"])
    except subject.CannotRunError as error:
        return [{"error": str(error)}]
    return [vars(verdict) for verdict in found]


if __name__ == "__main__":
    main()
