"""Forward pass and training step of a small decoder and a small translator, against the same in other libraries.

Writes docs/numbers/model.md's tables. Everything eager, in one process, in rounds that visit each peer once.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from measure import CLOCKS, DTYPES, autocast, interleaved, product, save, table, versions
from peers import Batch, Peer, Size, decoders, installed, lm_batch, translation_batch, translators

EXAMPLE = """example:
  python benchmarks/model.py --rounds 7 --threads 1 --clock cpu --json runs/model.json
  python benchmarks/model.py --rounds 1 --small --work decoder --dtype fp32"""

FULL = {
    "decoder": Size(layers=6, dim=384, heads=6, vocab=512, tokens=256, batch=8),
    "translator": Size(layers=3, dim=256, heads=8, vocab=8000, tokens=32, batch=64),
}
SMALL = {
    "decoder": Size(layers=2, dim=32, heads=2, vocab=64, tokens=16, batch=2),
    "translator": Size(layers=1, dim=32, heads=2, vocab=64, tokens=8, batch=4),
}
MAKERS = {"decoder": (decoders, lm_batch), "translator": (translators, translation_batch)}
LIMIT = "matrix product"


def forward(peer: Peer, batch: Batch, dtype: str) -> Callable[[], object]:
    """Logits in evaluation mode, no gradients."""
    peer.model.eval()

    def run() -> object:
        # nn.Transformer's fast path for inference cannot work under autocast on a CPU: it mixes the types.
        torch.backends.mha.set_fastpath_enabled(dtype == "fp32")
        with torch.inference_mode(), autocast(dtype):
            return peer.logits(batch)

    return run


def step(peer: Peer, batch: Batch, dtype: str) -> Callable[[], object]:
    """Forward, cross-entropy in float32, backward, AdamW (fused)."""
    peer.model.train()
    mover = torch.optim.AdamW(peer.model.parameters(), lr=1e-4, fused=True)

    def run() -> object:
        with autocast(dtype):
            logits = peer.logits(batch)
        loss = F.cross_entropy(logits.float().flatten(0, 1), batch.targets.flatten())
        loss.backward()
        mover.step()
        mover.zero_grad()
        return loss.detach()

    return run


def in_bf16(peer: Peer) -> Peer:
    """The same with its weights stored in bf16: no casts on the way."""
    peer.model.to(torch.bfloat16)
    return peer


def compare(work: str, dtype: str, part: str, sizes: dict[str, Size], rounds: int, clock: str) -> list[dict[str, Any]]:
    """One table: every peer's times, and their ratio to the fastest."""
    size = sizes[work]
    make, batch_of = MAKERS[work]
    torch.manual_seed(0)
    batch = batch_of(size)
    peers = make(size)
    runs = {name: (forward if part == "forward" else step)(peer, batch, dtype) for name, peer in peers.items()}
    if dtype == "bf16" and part == "forward":
        stored = in_bf16(make(size)["clearhead"])
        runs["clearhead, bf16 weights"] = forward(stored, batch, "fp32")
    work_done = operations(runs["plain block"])
    edge = 1024 if sizes is FULL else 64
    times = interleaved({**runs, LIMIT: product(dtype, edge)}, rounds, clock)
    limit = 2 * edge**3 / times.pop(LIMIT).low
    fastest = min(t.median for name, t in times.items() if not name.startswith("clearhead"))
    positions = batch.ids.numel() + (batch.fed.numel() if work == "translator" else 0)
    return [
        {
            "work": work, "dtype": dtype, "part": part, "peer": name, "seconds": t.median, "low": t.low, "high": t.high,
            "rounds": t.rounds, "ratio": t.median / fastest, "positions_per_second": positions / t.median,
            "limit_gflops": limit / 1e9, "share_of_limit": work_done / t.median / limit,
        }
        for name, t in sorted(times.items(), key=lambda item: item[1].median)
    ]  # fmt: skip


def operations(run: Callable[[], object]) -> int:
    """Multiplications and additions of one call in matrix products, those that a causal kernel skips included."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def show(rows: list[dict[str, Any]]) -> str:
    """The rows of one comparison as a Markdown table; ratios to the fastest peer that is not ours."""
    cells = [
        [
            r["peer"],
            f"{r['seconds'] * 1e3:.1f}",
            f"{r['low'] * 1e3:.1f}..{r['high'] * 1e3:.1f}",
            f"{r['positions_per_second']:,.0f}",
            f"{r['share_of_limit']:.0%}",
            f"{r['ratio']:.3f}",
        ]
        for r in rows
    ]
    return table(["model", "ms (median)", "min..max", "positions/s", "of limit", "time / fastest peer"], cells)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", choices=list(FULL), nargs="*", default=list(FULL))
    parser.add_argument("--dtype", choices=list(DTYPES), nargs="*", default=list(DTYPES))
    parser.add_argument("--part", choices=["forward", "step"], nargs="*", default=["forward", "step"])
    parser.add_argument("--small", action="store_true", help="toy sizes, to see that everything runs")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: less disturbed by other programs")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    about = versions(*filter(installed, ("transformers", "x_transformers"))) | {
        "threads": str(given.threads),
        "clock": given.clock,
    }
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    sizes = SMALL if given.small else FULL
    rows: list[dict[str, Any]] = []
    for work in given.work:
        for dtype in given.dtype:
            for part in given.part:
                found = compare(work, dtype, part, sizes, given.rounds, given.clock)
                print(f"\n{work}, {dtype}, {part} (limit {found[0]['limit_gflops']:.0f} GFLOP/s)\n\n{show(found)}")
                rows += found
    save(given.json, {"versions": about, "rows": rows})


if __name__ == "__main__":
    main()
