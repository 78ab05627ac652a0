"""The demo over several seeds: what every seed gives, median and worst.

python benchmarks/demo.py                       # seeds 0 to 9, German pieces
python benchmarks/demo.py --target letters --seeds 4
"""

import argparse
import json
import statistics
import tempfile
from typing import Any

import torch

from clearhead.demo.run import Plan, run
from clearhead.demo.task import Task

SHOWN = ("exact_match", "exact_match_sevens", "exact_match_thousands", "alignment_accuracy", "train_seconds")


def main() -> None:
    """Run every seed; a row each on stdout, then median and worst."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0")
    parser.add_argument("--kind", default="translation", choices=["translation", "lm", "encoder"])
    parser.add_argument("--to", default="de", choices=["de", "fr"])
    parser.add_argument("--target", default="pieces", choices=["pieces", "letters"])
    parser.add_argument("--positions", default="sinusoidal", choices=["sinusoidal", "none"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true", help="all reports as one JSON list")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    task = Task(kind=chosen.kind, to=chosen.to, units=chosen.target)
    reports: list[dict[str, Any]] = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {vars(chosen)}")
    print("seed  " + "  ".join(f"{name:>22}" for name in SHOWN))
    for seed in range(chosen.seeds):
        plan = Plan(task=task, positions=chosen.positions, seed=seed, steps=chosen.steps)
        with tempfile.TemporaryDirectory() as folder:
            reports.append(run(plan, f"{folder}/run", progress=False).report)
        print(f"{seed:>4}  " + _row(reports[-1]), flush=True)
    known = [name for name in SHOWN if name in reports[0]]
    columns = {name: [report[name] for report in reports] for name in known}
    print("median" + _row({name: statistics.median(values) for name, values in columns.items()}))
    worst = {name: max(values) if name == "train_seconds" else min(values) for name, values in columns.items()}
    print(" worst" + _row(worst))
    if chosen.json:
        print(json.dumps(reports))


def _row(report: dict[str, Any]) -> str:
    return "  ".join(f"{report[name]:>22.4f}" if name in report else " " * 22 for name in SHOWN)


if __name__ == "__main__":
    main()
