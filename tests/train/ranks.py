"""What each process of `torchrun` does in the tests: train replicated and sharded, save, and go on from one's save."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from clearhead.model.transformer import Transformer
from clearhead.train.loop import TrainingArguments, train
from clearhead.train.loss import IGNORED, Batch
from clearhead.train.optimizer import Rates
from clearhead.train.save import Checkpoint, load_checkpoint, save_checkpoint
from clearhead.train.schedule import cosine
from clearhead.train.spread import ALONE, Spread, spread
from train.test_loss import small

STEPS, HALF = 6, 3
DTYPES = {"float64": torch.float64, "float32": torch.float32}
RATES = Rates(adamw=0.01, decay=0.1, frozen=("encoder.layers.0.feed_forward.up.bias",))
ARGS = TrainingArguments(
    steps=STEPS, rates=RATES, schedule=cosine(2, STEPS), smoothing=0.1, accumulate=2, save_every=HALF
)


def tied(dtype: torch.dtype) -> Transformer:
    """A translator whose two tables and head are one."""
    torch.manual_seed(0)
    return Transformer(replace(small("both").config, shared_embeddings=True)).to(dtype)


def batches(here: Spread, done: int = 0) -> Iterator[Batch]:
    """Padded pairs, of which this process has every second, or one that counts nothing: batches have 5, 2 or 1 rows."""
    chance = torch.Generator().manual_seed(7)
    for number in range(2 * STEPS):
        rows = (5, 1, 2)[number % 3]
        ids, labels = (torch.randint(3, 11, (rows, 6), generator=chance) for _ in range(2))
        lengths = torch.randint(1, 7, (2, rows, 1), generator=chance)
        keep = torch.arange(6) < lengths
        batch = {"input_ids": ids.masked_fill(~keep[0], 0), "attention_mask": keep[0].long()}
        batch["labels"] = labels.masked_fill(~keep[1], IGNORED)
        if number >= 2 * done:
            own = {name: value[here.rank :: here.ranks] for name, value in batch.items()}
            nothing = {**batch, "labels": torch.full_like(labels, IGNORED)}
            yield own if len(own["labels"]) else nothing


def run(folder: Path, name: str, dtype: str, here: Spread = ALONE, begun: Path | None = None) -> list[float]:
    """Train to the end, from the beginning or from a checkpoint, and save after 3 and 6 steps."""
    start = None if begun is None else load_checkpoint(begun, RATES, here=here)
    model = tied(DTYPES[dtype]) if start is None else start.model

    def save(reached: Checkpoint) -> None:
        save_checkpoint(reached, folder / f"{name}-{dtype}-{reached.step}", here)

    done = 0 if start is None else start.step
    return train(model, batches(here, done), ARGS, save=save, start=start, here=here).losses


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {}
    with spread() as place:
        for kind in ("ddp", "fsdp"):
            here = replace(place, sharded=kind == "fsdp")
            for dtype in DTYPES:
                found[f"{kind}-{dtype}"] = run(folder, kind, dtype, here)
            begun = folder / f"alone-float64-{HALF}"
            found[f"{kind}-resumed"] = run(folder, f"{kind}-resumed", "float64", here, begun)
    if place.first:
        (folder / "losses.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
