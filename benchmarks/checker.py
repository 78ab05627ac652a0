"""How well the checker names mistakes: its corpus of right and wrong implementations, per task, and the time per file.

python benchmarks/checker.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from clearhead.checker.client import Worker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "checker"))

from cases import Item, everything

KINDS = {
    "sdpa": "sdpa",
    "multi": "multi_head_attention",
    "cross": "cross_attention",
    "causal": "causal_mask",
    "pos": "positional_encoding",
    "shift": "decoder_shift",
    "kv": "kv_cache",
}


def measure(item: Item, worker: Worker, folder: Path) -> tuple[str, float]:
    """(right | false alarm | named | other name | passed | could not run, seconds)."""
    path = folder / "attempt.py"
    path.write_text(item.text)
    start = time.perf_counter()
    verdict = worker.ask(str(path), {k: v for k, v in item.flags.items() if k != "kind"})[0]
    seconds = time.perf_counter() - start
    if verdict.get("passed") is None:
        return "could not run", seconds
    if not item.expected:
        return "right" if verdict["passed"] else "false alarm", seconds
    if verdict["passed"]:
        return "passed", seconds
    return "named" if verdict["mistakes"][0] in item.expected else "other name", seconds


def main() -> None:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Worker(seconds=60) as worker:
        worker.ask(folder + "/none.py", {})  # starts the worker: imports are not counted
        for item in everything():
            outcome, seconds = measure(item, worker, Path(folder))
            counts[item.task][outcome] += 1
            times.append(seconds)
    columns = ("right", "false alarm", "named", "other name", "passed", "could not run")
    print(f"{'task':<22}" + "".join(f"{name:>14}" for name in columns))
    for kind, name in KINDS.items():
        print(f"{name:<22}" + "".join(f"{counts[kind][column]:>14}" for column in columns))
    times.sort()
    middle = times[len(times) // 2]
    print(f"{len(times)} files: median {middle:.2f} s, slowest {times[-1]:.2f} s, total {sum(times):.0f} s")


if __name__ == "__main__":
    main()
