"""Multi30k English to German: BLEU on test2016 by a model of 2.6 million parameters, where 41.02 is published.

Input and score are those of the published figure: lower-cased, tokenised text in joint byte-pair pieces
(multi30k-bpe-ende), beam 5, BLEU of the joined pieces against the tokenised reference; beside it sacreBLEU of the
detokenised text against the raw reference, without case. Resumable: each call trains for at most --minutes, saves and
scores; the same line goes on. --peer SECONDS trains and scores Hugging Face's Marian of the same size instead, on the
same batches in the same order, with AdamW, for so many seconds of the processor; its learning rate follows the clock.
"""

import argparse
import gzip
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from sacrebleu.metrics.bleu import BLEU

sys.path.insert(0, str(Path(__file__).parents[1]))

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.families.load import load
from clearhead.families.store import write_json
from clearhead.generation.text import translate
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.compute import computing
from clearhead.train.data.batches import stream
from clearhead.train.folder import read_log
from clearhead.train.loss import teach
from clearhead.train.recipe import Recipe, recipe_of
from clearhead.train.run import run, schedule
from clearhead.train.start import begin
from clearhead.train.task import task_of
from measure import save, versions

EXAMPLE = """example:
  python benchmarks/train/multi30k.py --out runs/multi30k --minutes 90
  python benchmarks/train/multi30k.py --out runs/marian --peer 3600 --json runs/marian.json"""
SHARED = Path(os.environ.get("CLEARHEAD_SHARED", Path(__file__).parents[3] / "shared"))
BEAMS, TOGETHER = 5, 50
DROPOUT = 0.15  # in four places of a layer, where the published model has 0.3 in two


def config() -> TransformerConfig:
    """Four and four layers of width 128, as fairseq's transformer_tiny for this data; one table for all."""
    look, forward = Attention(heads=4), FeedForward(dim=256)
    reader = Layer(self_attention=look, feed_forward=forward)
    writer = Layer(self_attention=Attention(heads=4, causal=True), cross_attention=look, feed_forward=forward)
    places = Positions(kind="interleaved")
    encoder, decoder = (Stack(layers=(one,) * 4, vocab=8, positions=places, norm_out=True) for one in (reader, writer))
    special = {"shared_embeddings": True, "pad": 0, "bos": 1}
    return TransformerConfig(dim=128, encoder=encoder, decoder=decoder, head=Head(tied=True), **special)


def recipe(data: Path, folder: Path, steps: int) -> Recipe:
    """What is asked of a run. The vocabulary of the model in the file is replaced by the tokenizer's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {"model_type": "clearhead", **config().to_dict()})
    pairs = data / "multi30k-bpe-ende"
    return recipe_of(
        {
            "task": "translate",
            "data": {
                "train": [str(pairs / "train.en.gz"), str(pairs / "train.de.gz")],
                "validation": [str(pairs / "valid.en.gz"), str(pairs / "valid.de.gz")],
            },
            "tokenizer": {"kind": "word", "shared": True},
            "model": {"config": str(folder / "config.json"), "dropout": DROPOUT},
            "batch": {"tokens": 2048},
            "optimizer": {"adamw": 3e-3, "muon": 0.02},
            "steps": steps,
            "smoothing": 0.1,
            "dtype": "bfloat16",
            "save": {"every": 100, "keep": 5, "average": 5},
            "watch": {"evaluate_every": 500},
        }
    )


def lines(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as text:
        return [line.rstrip("\n") for line in text]


def scores(data: Path, written: list[str]) -> dict[str, float]:
    """BLEU as published, and sacreBLEU without case on text as people write it."""
    joined = [re.sub(r"@@( |$)", "", line) for line in written]
    tokenised = lines(data / "multi30k/test_2016_flickr.lc.norm.tok.de.gz")[: len(joined)]
    raw = lines(data / "multi30k/test_2016_flickr.de.gz")[: len(joined)]
    plain = BLEU(tokenize="none", force=True).corpus_score(joined, [tokenised])
    usual = BLEU(lowercase=True).corpus_score([detokenised(line) for line in joined], [raw])
    return {"tokenised_bleu": plain.score, "sacrebleu": usual.score}


def detokenised(line: str) -> str:
    """Without the blanks and marks that Moses' tokenizer put in."""
    marks = {"&apos;": "'", "&quot;": '"', "&amp;": "&", "&#91;": "[", "&#93;": "]", "&#124;": "|", " @-@ ": "-"}
    for mark, sign in marks.items():
        line = line.replace(mark, sign)
    return re.sub(r"([(\[„]) ", r"\1", re.sub(r" ([.,;:!?)\]“])", r"\1", line))


def in_groups(sources: list[str], translated: Callable[[list[str]], list[str]]) -> list[str]:
    """Translate sentences of like length together; in the order in which they came."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found = [""] * len(sources)
    for start in range(0, len(order), TOGETHER):
        group = order[start : start + TOGETHER]
        for i, text in zip(group, translated([sources[i] for i in group]), strict=True):
            found[i] = text
    return found


def ours(asked: Recipe, folder: Path, minutes: float) -> float:
    """Train for so many minutes; the processor's seconds of all calls."""
    timer = threading.Timer(60 * minutes, lambda: os.kill(os.getpid(), signal.SIGTERM))
    timer.daemon = True
    started = time.process_time()
    timer.start()
    run(asked, folder, resume=(folder / "run.json").exists())
    timer.cancel()
    took = folder / "seconds.txt"
    total = time.process_time() - started + (float(took.read_text()) if took.exists() else 0.0)
    took.write_text(str(total))
    return total


def marian(asked: Recipe, folder: Path, seconds: float, rate: float) -> tuple[Any, Tokenizer, int]:
    """Hugging Face's Marian of the same size, trained so long; the steps that it made."""
    import transformers

    task = task_of(asked)
    model = begin(asked, task.texts, "cpu")
    parts, tokenizer = task.data(model, folder / ".data"), model.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    sizes = {"layers": 4, "attention_heads": 4, "ffn_dim": 256}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    form = transformers.MarianConfig(
        vocab_size=len(tokenizer), d_model=128, max_position_embeddings=256, activation_function="relu",
        dropout=DROPOUT, attention_dropout=DROPOUT, activation_dropout=DROPOUT, pad_token_id=0,
        eos_token_id=tokenizer.eos, decoder_start_token_id=model.config.first, forced_eos_token_id=None, **sides,
    )  # fmt: skip
    peer = transformers.MarianMTModel(form).train()
    mover = torch.optim.AdamW(peer.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=1e-4, fused=True)
    share, given = schedule(asked, 10_000), stream(parts.train, asked.seed)
    started, spent, step = time.process_time(), 0.0, 0
    while spent < seconds:
        step += 1
        mover.param_groups[0]["lr"] = rate * share(1 + int(9_999 * spent / seconds))
        fed, targets = teach(model.config, next(given))
        with computing(asked.dtype, "cpu"):
            logits = peer(**fed).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), label_smoothing=asked.smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        mover.step()
        mover.zero_grad()
        spent = time.process_time() - started
        if step % 100 == 0:
            print(f"step {step}, {spent:.0f} s, loss {loss.item():.3f}", flush=True)
    return peer.eval(), tokenizer, step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--minutes", type=float, default=90.0, help="train at most so long in this call")
    parser.add_argument("--steps", type=int, default=6000, help="of 2,048 tokens each")
    parser.add_argument("--sentences", type=int, default=1000, help="of test2016 to translate")
    parser.add_argument("--peer", type=float, help="train and score Marian for so many seconds instead")
    parser.add_argument("--rate", type=float, default=1e-3, help="Marian's peak learning rate")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = SHARED / "data"
    asked = recipe(data, given.out.with_name(f"{given.out.name}-config"), given.steps)
    sources = lines(data / "multi30k-bpe-ende/test.2016.en.gz")[: given.sentences]
    found: dict[str, Any]
    if given.peer:
        peer, tokenizer, steps = marian(asked, given.out, given.peer, given.rate)
        found = {"model": "marian", "steps": steps, "seconds": given.peer, "rate": given.rate}

        def translated(texts: list[str]) -> list[str]:
            ids = peer.generate(**tokenizer(texts), num_beams=BEAMS, max_new_tokens=100)
            return [tokenizer.decode(row.tolist()) for row in ids]

        parameters = [p for p in peer.parameters() if p.requires_grad]
    else:
        seconds = ours(asked, given.out, given.minutes)
        model, log = load(given.out), read_log(given.out)
        found = {"model": "clearhead", "steps": log[-1]["step"], "seconds": seconds}
        found["curve"] = [(line["step"], line["validation_loss"]) for line in log if "validation_loss" in line]

        def translated(texts: list[str]) -> list[str]:
            return translate(model, texts, num_beams=BEAMS, max_new_tokens=100)

        parameters = list(model.parameters())
    found |= scores(data, in_groups(sources, translated))
    found["parameters"] = sum(p.numel() for p in parameters)
    print(found)
    save(given.json, {"versions": versions(), **found})


if __name__ == "__main__":
    main()
