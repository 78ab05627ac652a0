"""Forward pass and training step of a small decoder and a small translator, against the same in other libraries.

Writes the tables of docs/numbers/model.md and train.md. One process, in rounds that visit each peer once; eager, but in
the part "compiled".
"""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from clearhead.train.compute import layers_as
from clearhead.train.loop import backward
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
LIMIT, OWN = "matrix product", "clearhead train"
PARTS = ("forward", "step", "compiled")


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


def own_step(peer: Peer, batch: Batch, dtype: str) -> Callable[[], object]:
    """A step of our own training loop: the head reads only the places with a target, and the loss is one pass."""
    model = peer.model.train()
    mover = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if batch.keep is None:
        given = {"input_ids": torch.cat([batch.ids, batch.targets[:, -1:]], dim=1)}
        given["labels"] = given["input_ids"]
    else:
        given = {"input_ids": batch.ids, "attention_mask": batch.keep.long(), "decoder_input_ids": batch.fed}
        given["labels"] = batch.targets

    def run() -> object:
        found = backward(model, [given], dtype="bfloat16" if dtype == "bf16" else "float32")
        mover.step()
        mover.zero_grad()
        return found

    return run


def compiled(peer: Peer) -> Peer:
    """The same as one graph, by inductor; half a minute each."""
    return Peer(peer.model, torch.compile(peer.logits))


def in_bf16(peer: Peer) -> Peer:
    """The same with its weights stored in bf16: no casts on the way."""
    peer.model.to(torch.bfloat16)
    return peer


def ways(
    size: Size, work: str, dtype: str, part: str, batch: Batch, held: ExitStack
) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    make, _ = MAKERS[work]
    measured = forward if part == "forward" else step
    peers = {name: compiled(peer) if part == "compiled" else peer for name, peer in make(size).items()}
    runs = {name: measured(peer, batch, dtype) for name, peer in peers.items()}
    if dtype == "bf16" and part == "forward":
        stored = in_bf16(make(size)["clearhead"])
        runs["clearhead, bf16 weights"] = forward(stored, batch, "fp32")
    if part != "forward":
        runs[OWN] = own_step(make(size)["clearhead"], batch, dtype)
    if part == "compiled":
        model = make(size)["clearhead"]
        held.enter_context(layers_as(model.model, compiled=True, again=False))
        runs[f"{OWN}, compiled"] = own_step(model, batch, dtype)
    return runs


def compare(
    work: str,
    dtype: str,
    part: str,
    sizes: dict[str, Size],
    rounds: int,
    clock: str,
    chosen: list[str] | None = None,
) -> list[dict[str, Any]]:
    """One table: every peer's times, and their ratio to the fastest. Padding counts as no token."""
    size = sizes[work]
    make, batch_of = MAKERS[work]
    torch.manual_seed(0)
    batch = batch_of(size)
    edge = 1024 if sizes is FULL else 64
    work_done = operations((forward if part == "forward" else step)(make(size)["plain block"], batch, dtype))
    with ExitStack() as held:
        runs = ways(size, work, dtype, part, batch, held)
        runs = {name: run for name, run in runs.items() if chosen is None or name in chosen or name.startswith(OWN)}
        times = interleaved({**runs, LIMIT: product(dtype, edge)}, rounds, clock)
    limit = 2 * edge**3 / times.pop(LIMIT).low
    fastest = min(t.median for name, t in times.items() if not name.startswith("clearhead"))
    tokens = batch.fed.numel() if batch.keep is None else int(batch.keep.sum()) + int((batch.targets != -100).sum())
    return [
        {
            "work": work, "dtype": dtype, "part": part, "peer": name, "seconds": t.median, "low": t.low, "high": t.high,
            "rounds": t.rounds, "ratio": t.median / fastest, "tokens_per_second": tokens / t.median,
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
            f"{r['tokens_per_second']:,.0f}",
            f"{r['share_of_limit']:.0%}",
            f"{r['ratio']:.3f}",
        ]
        for r in rows
    ]
    return table(["model", "ms (median)", "min..max", "tokens/s", "of limit", "time / fastest peer"], cells)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", choices=list(FULL), nargs="*", default=list(FULL))
    parser.add_argument("--dtype", choices=list(DTYPES), nargs="*", default=list(DTYPES))
    parser.add_argument("--part", choices=PARTS, nargs="*", default=["forward", "step"])
    parser.add_argument("--peers", nargs="*", help="only these, such as 'plain block'; by default all")
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
                found = compare(work, dtype, part, sizes, given.rounds, given.clock, given.peers)
                print(f"\n{work}, {dtype}, {part} (limit {found[0]['limit_gflops']:.0f} GFLOP/s)\n\n{show(found)}")
                rows += found
    save(given.json, {"versions": about, "rows": rows})


if __name__ == "__main__":
    main()
