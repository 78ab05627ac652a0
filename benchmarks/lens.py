"""What it costs to look: a GPT-2-small-sized model, plain, recorded, and with statistics of every head.

python benchmarks/lens.py --tokens 128 1024 4096

Beside it Hugging Face with `output_attentions` and, where it is installed, TransformerLens, on random models of the
same size. Every line is measured in a process of its own, so that memory is its own; a ratio is taken to the plain
forward of the same library.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from measure import table, versions

LAYERS, HEADS, DIM, VOCAB = 12, 12, 768, 50257
WORK = ("plain", "recorded", "statistics", "hf plain", "hf attentions", "tl plain", "tl patterns")
DENSE_LIMIT = 4096  # tokens up to which the peers' n x n patterns of all layers fit into memory here


def ours(tokens: int) -> Any:
    from clearhead.config import Attention, FeedForward, Layer, Positions, Stack, TransformerConfig
    from clearhead.model.transformer import Transformer

    layer = Layer(
        self_attention=Attention(heads=HEADS, causal=True, bias="qkvo"),
        feed_forward=FeedForward(dim=4 * DIM, activation="gelu_tanh"),
    )
    places = Positions(kind="learned", count=max(tokens, 1024))
    stack = Stack(layers=(layer,) * LAYERS, vocab=VOCAB, positions=places, norm_out=True)
    return Transformer(TransformerConfig(dim=DIM, decoder=stack, init_std=0.02, head=None)).eval()


def call_of(work: str, tokens: int) -> Callable[[], object]:
    """What is timed. The output matrix is left out everywhere: at 32k tokens its logits take 6 GB."""
    ids = torch.randint(0, VOCAB, (1, tokens), generator=torch.Generator().manual_seed(0))
    if work in ("plain", "recorded", "statistics"):
        from clearhead.lens.record import record

        model = ours(tokens)

        def run() -> object:
            if work == "plain":
                return model(ids)
            with record(model, "*.weights") as seen:
                model(ids)
            if work == "statistics":
                return [view.measure("entropy", "previous", "distance", "max") for view in seen.values()]
            return seen

        return run
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

    kind = "sdpa" if work == "hf plain" else "eager"
    config = GPT2Config(n_positions=max(tokens, 1024), attn_implementation=kind)
    if work.startswith("hf"):
        model = GPT2Model(config).eval()
        return lambda: model(ids, output_attentions=work == "hf attentions", use_cache=False)
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    whole = GPT2LMHeadModel(config).eval()
    bridge = build_bridge_from_module(whole, architecture="GPT2LMHeadModel", hf_config=config)
    end = {"return_type": None, "stop_at_layer": LAYERS}
    if work == "tl plain":
        return lambda: bridge(ids, **end)
    return lambda: bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"), **end)


@torch.no_grad()
def measured(work: str, tokens: int, rounds: int) -> dict[str, float]:
    """Seconds (median) and megabytes beyond the model: the growth of the highest memory while the call ran."""
    call = call_of(work, tokens)
    before = peak(forget=True)
    seconds: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return {"seconds": statistics.median(seconds), "megabytes": peak() - before}


def peak(forget: bool = False) -> float:
    """The highest memory of this process, in megabytes (Linux), since it was last told to forget what was before."""
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def layer_line(tokens: int, rounds: int) -> list[str]:
    """One layer: four statistics and the top 8 of all heads, against the fused forward of that layer."""
    from clearhead.formulas.attention import Scoring, attend
    from clearhead.formulas.mask import Visible
    from clearhead.lens.rows import Weights

    q, k, v = (torch.randn(1, HEADS, tokens, DIM // HEADS) for _ in range(3))
    scoring = Scoring(Visible.last(tokens, tokens, causal=True), (DIM // HEADS) ** -0.5)
    fused: list[float] = []
    looked: list[float] = []
    attend(q, k, v, scoring)
    few = slice(0, 256)  # so that both kinds of code have been loaded before memory is looked at
    small = Scoring(Visible.last(256, 256, causal=True), scoring.scale)
    Weights(q[:, :, few], k[:, :, few], small).measure("entropy", "previous", "distance", top=8)
    before = peak(forget=True)
    for _ in range(rounds):
        start = time.process_time()
        attend(q, k, v, scoring)
        middle = time.process_time()
        Weights(q, k, scoring).measure("entropy", "previous", "distance", top=8)
        fused.append(middle - start)
        looked.append(time.process_time() - middle)
    ratio = statistics.median(b / a for a, b in zip(fused, looked, strict=True))
    return [str(tokens), f"{statistics.median(fused):.2f}", f"{ratio:.2f}", f"{peak() - before:.0f}"]


def child(*arguments: str) -> Any:
    found = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 1024, 4096])
    parser.add_argument(
        "--layer", type=int, nargs="*", default=[1024, 8192, 32768], help="tokens of the one-layer lines"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.work == "layer":
        print(json.dumps(layer_line(given.tokens[0], given.rounds)))
        return
    if given.work:
        print(json.dumps(measured(given.work, given.tokens[0], given.rounds)))
        return
    installed = [name for name in ("transformers", "transformer_lens") if importlib.util.find_spec(name)]
    print(", ".join(f"{name} {value}" for name, value in versions(*installed).items()), f"threads {given.threads}")
    common = ["--rounds", str(given.rounds), "--threads", str(given.threads)]
    rows: list[list[str]] = []
    for tokens in given.tokens:
        plain: dict[str, float] = {}
        for work in WORK:
            peer = work.startswith(("hf", "tl"))
            if (work.startswith("tl") and not importlib.util.find_spec("transformer_lens")) or (
                peer and tokens > DENSE_LIMIT
            ):
                continue
            found = child("--work", work, "--tokens", str(tokens), *common)
            own = work.split()[0] if peer else "ours"
            plain.setdefault(own, found["seconds"])
            ratio = found["seconds"] / plain[own]
            rows.append([str(tokens), work, f"{found['seconds']:.2f}", f"{ratio:.3f}", f"{found['megabytes']:.0f}"])
    print(table(["tokens", "work", "seconds (cpu)", "/ its plain", "MB beyond the model"], rows))
    lines = [child("--work", "layer", "--tokens", str(tokens), *common) for tokens in given.layer]
    print("\none layer, 12 heads of width 64, causal: entropy, previous, distance and top 8 of all rows\n")
    print(table(["tokens", "fused seconds (cpu)", "look / fused", "MB extra"], lines))


if __name__ == "__main__":
    main()
