"""The three ways of `clearhead.attention` and PyTorch's kernel: time in one process, peak memory in one process each.

8 heads of width 64. Writes docs/numbers/attention.md's tables.
"""

import argparse
import multiprocessing
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.formulas import attention as formulas
from clearhead.formulas.mask import Visible
from clearhead.tap import Tap
from measure import CLOCKS, DTYPES, interleaved, save, table, versions

EXAMPLE = """example:
  python benchmarks/attention.py --rounds 5 --threads 1 --clock cpu --json runs/attention.json
  python benchmarks/attention.py --tokens 32 128 --dtype bf16 --mask causal --rounds 3"""

HEADS, WIDTH = 8, 64
BATCH = {32: 64, 64: 32, 128: 16, 256: 8, 384: 5, 512: 4, 1024: 2, 2048: 1, 8192: 1}  # by tokens
OPEN_UP_TO = 2048  # tokens at which all weights together still fit easily


class Opener(Tap):
    """Asks for the weights in the open, and leaves them as they are."""

    def opens(self) -> bool:
        return True


def ways(tokens: int, mask: str) -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """PyTorch's kernel, the way that clearhead chooses, and each of its three ways."""
    scoring = formulas.Scoring(Visible.last(tokens, tokens, causal=mask == "causal"), WIDTH**-0.5)
    found = {
        "F.sdpa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=mask == "causal"),
        "clearhead": lambda q, k, v: formulas.attention(q, k, v, causal=mask == "causal"),
        "fused": lambda q, k, v: formulas._fused(q, k, v, scoring, 0.0),
        "blocks": lambda q, k, v: formulas._blocks(q, k, v, scoring, 0.0),
    }
    if tokens <= OPEN_UP_TO:
        found["open"] = lambda q, k, v: formulas.attend(q, k, v, scoring, tap=Opener())
    return found


def call(way: str, tokens: int, mask: str, dtype: str, backward: bool, batch: int | None = None) -> Callable[[], None]:
    """One call, ready to run, on inputs as a model has them: heads split off a projection."""
    torch.manual_seed(0)
    shape = (batch or BATCH.get(tokens, 1), tokens, HEADS, WIDTH)
    q, k, v, gradient = (torch.randn(shape).to(DTYPES[dtype]).transpose(1, 2) for _ in range(4))
    run = ways(tokens, mask)[way]
    inputs = [x.requires_grad_(backward) for x in (q, k, v)]

    def once() -> None:
        if backward:
            torch.autograd.grad(run(*inputs), inputs, gradient)
        else:
            with torch.inference_mode():
                run(*inputs)

    return once


def peak(case: tuple[Any, ...]) -> float:
    """Megabytes that one call needs on top of its inputs (Linux: VmHWM). Runs in a process of its own."""
    call(*case[:1], 16, *case[2:])()  # kernels and threads are set up
    once = call(*case)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = _status("VmRSS")
    once()
    return (_status("VmHWM") - before) / 1e3


def _status(key: str) -> int:
    """Kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def add_peaks(rows: list[dict[str, Any]]) -> None:
    """`megabytes` of every row; None where the system does not tell."""
    cases = [(r["way"], r["tokens"], r["mask"], r["dtype"], r["part"] != "forward") for r in rows]
    found: list[float | None] = [None] * len(cases)
    if Path("/proc/self/clear_refs").exists():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["clearhead.formulas.attention"])
        with context.Pool(1, maxtasksperchild=1) as pool:
            found = pool.map(peak, cases, chunksize=1)
    for row, megabytes in zip(rows, found, strict=True):
        row["megabytes"] = megabytes


def compare(tokens: int, mask: str, dtype: str, backward: bool, rounds: int, clock: str) -> list[dict[str, Any]]:
    """The time of every way, and its ratio to PyTorch's kernel."""
    work = {way: call(way, tokens, mask, dtype, backward) for way in ways(tokens, mask)}
    times = interleaved(work, rounds, clock)
    return [
        {
            "tokens": tokens, "batch": BATCH.get(tokens, 1), "mask": mask, "dtype": dtype, "way": way,
            "part": "forward + backward" if backward else "forward", "seconds": t.median, "low": t.low, "high": t.high,
            "ratio": t.median / times["F.sdpa"].median,
        }
        for way, t in times.items()
    ]  # fmt: skip


def show(rows: list[dict[str, Any]]) -> str:
    """One line per size and part: the kernel's time, then each way's ratio to it and its memory."""
    names = ["clearhead", "fused", "blocks", "open"]
    header = ["tokens x batch", "part", "F.sdpa ms", "min..max", *names, "MB: F.sdpa", *names]
    cells: list[list[str]] = []
    for key in dict.fromkeys((r["tokens"], r["batch"], r["part"]) for r in rows):
        by_way = {r["way"]: r for r in rows if (r["tokens"], r["batch"], r["part"]) == key}
        kernel = by_way["F.sdpa"]
        ratios = [f"{by_way[n]['ratio']:.2f}" if n in by_way else "-" for n in names]
        sizes = [by_way[n]["megabytes"] if n in by_way else None for n in ("F.sdpa", *names)]
        spread = f"{kernel['low'] * 1e3:.1f}..{kernel['high'] * 1e3:.1f}"
        memory = ["-" if size is None else f"{size:.0f}" for size in sizes]
        cells.append([f"{key[0]} x {key[1]}", key[2], f"{kernel['seconds'] * 1e3:.1f}", spread, *ratios, *memory])
    return table(header, cells)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="*", default=list(BATCH))
    parser.add_argument("--mask", choices=["full", "causal"], nargs="*", default=["full", "causal"])
    parser.add_argument("--dtype", choices=list(DTYPES), nargs="*", default=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: less disturbed by other programs")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    about = versions() | {"threads": str(given.threads), "clock": given.clock}
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    rows: list[dict[str, Any]] = []
    for dtype, mask, tokens, backward in product(given.dtype, given.mask, given.tokens, (False, True)):
        rows += compare(tokens, mask, dtype, backward, given.rounds, given.clock)
    add_peaks(rows)
    for dtype, mask in product(given.dtype, given.mask):
        part = [r for r in rows if (r["dtype"], r["mask"]) == (dtype, mask)]
        print(f"\n{dtype}, {mask}: time / time of F.sdpa, then megabytes beside the inputs\n\n{show(part)}")
    save(given.json, {"versions": about, "rows": rows})


if __name__ == "__main__":
    main()
