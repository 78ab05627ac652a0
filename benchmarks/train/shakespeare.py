"""Tiny Shakespeare by characters at the size of nanoGPT's recipe for a CPU: our training against a plain block's.

The plain block is trained as that recipe says (4 layers of width 128, 4 heads, 12 blocks of 64 characters, 2,000 steps
of AdamW, rate 0.001 with warm-up and cosine), and ours for as many seconds of the processor as it took. Both see blocks
at random places of the first 1,003,854 characters, and are scored on each of the last 111,540 once.
"""

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from clearhead.config import Attention, FeedForward, Layer, Norm, Rotary, Stack, TransformerConfig
from clearhead.model.transformer import Transformer
from clearhead.train.loop import TrainingArguments, train
from clearhead.train.optimizer import Rates
from clearhead.train.schedule import cosine
from measure import save, versions
from peers import Batch, Peer, Size, decoders

EXAMPLE = """example:
  python benchmarks/train/shakespeare.py --json runs/shakespeare.json
  python benchmarks/train/shakespeare.py --steps 20 --text some.txt"""
SHARED = Path(os.environ.get("CLEARHEAD_SHARED", Path(__file__).parents[3] / "shared"))
SIZE = Size(layers=4, dim=128, heads=4, vocab=0, tokens=64, batch=12)
TRAINED = 1_003_854 / 1_115_394  # share of the text
DECAY, WARMUP = 0.1, 100


def read(path: Path) -> tuple[Tensor, Tensor, int]:
    """The ids to train and to validate on, and how many characters there are."""
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8").read()
    known = {character: i for i, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([known[character] for character in text])
    at = round(len(ids) * TRAINED)
    return ids[:at], ids[at:], len(known)


def blocks(ids: Tensor, seed: int) -> Iterator[Tensor]:
    """[12, 65] at random places, without end."""
    chance = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(ids) - SIZE.tokens - 1, (SIZE.batch, 1), generator=chance)
        yield ids[starts + torch.arange(SIZE.tokens + 1)]


@torch.no_grad()
def loss_on(ids: Tensor, logits: object) -> float:
    """Nats per character; each but the first is predicted once, from those before it in its block."""
    whole = (len(ids) - 1) // SIZE.tokens
    rows = ids[: whole * SIZE.tokens + 1].unfold(0, SIZE.tokens + 1, SIZE.tokens)
    total = 0.0
    for part in rows.split(64):
        found = logits(part[:, :-1])  # type: ignore[operator]
        total += float(F.cross_entropy(found.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    return total / (whole * SIZE.tokens)


def plain(ids: Tensor, size: Size, steps: int, seed: int) -> tuple[Peer, float]:
    """The plain block after nanoGPT's recipe, and the processor's seconds that it took."""
    torch.manual_seed(seed)
    peer = decoders(size)["plain block"]
    matrices = [p for p in peer.model.parameters() if p.dim() >= 2]
    vectors = [p for p in peer.model.parameters() if p.dim() < 2]
    for part in peer.model.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    mover = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    share, given = cosine(min(WARMUP, steps // 10), steps, floor=0.1), blocks(ids, seed)
    started = time.process_time()
    for step in range(1, steps + 1):
        for group in mover.param_groups:
            group["lr"] = 1e-3 * share(step)
        rows = next(given)
        logits = peer.logits(Batch(rows[:, :-1], None, rows[:, :-1], rows[:, 1:]))
        F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(peer.model.parameters(), 1.0)
        mover.step()
        mover.zero_grad()
    return peer, time.process_time() - started


def ours(ids: Tensor, size: Size, seconds: float, seed: int) -> tuple[Transformer, float, int]:
    """Our small language model of that size, trained for so many seconds; those, and the steps."""
    layer = Layer(
        self_attention=Attention(heads=size.heads, causal=True, rotary=Rotary()),
        feed_forward=FeedForward(dim=size.dim * 8 // 3 // 64 * 64, activation="silu", gated=True, bias=False),
    )
    stack = Stack(layers=(layer,) * size.layers, vocab=size.vocab, norm_out=True)
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(dim=size.dim, norm=Norm(kind="rms"), decoder=stack, init_std=0.02))
    given = ({"input_ids": rows, "labels": rows} for rows in blocks(ids, seed))
    args = TrainingArguments(steps=20, rates=Rates(adamw=4e-3, muon=0.02, decay=DECAY), schedule=cosine(2, 20))
    tried = Transformer(model.config)
    tried.load_state_dict(model.state_dict())
    started = time.process_time()
    train(tried, given, args)  # only to see how long a step takes
    took = time.process_time() - started
    steps = max(int((seconds - took) / took * args.steps), 1)
    train(model, given, replace(args, steps=steps, schedule=cosine(min(WARMUP, steps // 10), steps)))
    return model, time.process_time() - started, steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, default=SHARED / "data/tinyshakespeare/input.txt.gz")
    parser.add_argument("--steps", type=int, default=2000, help="of the plain block")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    training, kept, vocab = read(given.text)
    size = replace(SIZE, vocab=vocab)
    peer, seconds = plain(training, size, given.steps, given.seed)
    theirs = loss_on(kept, lambda ids: peer.logits(Batch(ids, None, ids, ids)))
    count = sum(p.numel() for p in peer.model.parameters())
    print(f"plain block: {count:,} parameters, {given.steps} steps, {seconds:.1f} s, validation loss {theirs:.4f}")
    model, took, steps = ours(training, size, seconds, given.seed)
    found = loss_on(kept, lambda ids: model(ids).logits)
    count = sum(p.numel() for p in model.parameters())
    print(f"clearhead: {count:,} parameters, {steps} steps, {took:.1f} s, validation loss {found:.4f}")
    result = {"plain": theirs, "clearhead": found, "plain_seconds": seconds, "seconds": took, "steps": steps}
    save(given.json, {"versions": versions(), "seed": given.seed, **result})
    if given.json is None:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
