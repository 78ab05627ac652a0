"""What goes wrong without an error: numbers that are not finite, and models that do not listen to what they read."""

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from clearhead.lens.record import record
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap
from clearhead.train.compute import Dtype, computing
from clearhead.train.loss import IGNORED, Batch, teach

T = TypeVar("T")
SOURCES = 20  # that are swapped, to see whether it matters
SAME = 0.99  # share of equal predictions that is called all


class _BadError(Exception):
    """Found at an address."""


class _Finite(Tap):
    """Raises at the first number that is not finite; scores may hide keys with -inf."""

    def __init__(self, address: str = ""):
        self.address = address

    def at(self, name: str) -> Tap:
        return _Finite(f"{self.address}.{name}".removeprefix("."))

    def __call__(self, site: str, value: T) -> T:
        if isinstance(value, Tensor) and not bool(value.isfinite().all()):
            raise _BadError(f"{self.address}.{site}".removeprefix("."))
        return value


def first_bad(model: Transformer, batches: Sequence[Batch], dtype: Dtype = "float32") -> str | None:
    """The first address in a forward pass, such as decoder.3.self.v, that holds a number that is not finite."""
    for batch in batches:
        fed, _ = teach(model.config, batch)
        try:
            with torch.no_grad(), computing(dtype, batch["labels"].device.type):
                model(**fed, tap=_Finite())
        except _BadError as found:
            return str(found)
    return None


@torch.no_grad()
def alarms(model: Transformer, batch: Batch) -> list[str]:
    """What is suspicious about this model, in eval mode, on this batch of validation data; a sentence each."""
    return [said for said in (_says_one_thing(model, batch), _ignores_source(model, batch)) if said]


def _says_one_thing(model: Transformer, batch: Batch) -> str | None:
    fed, targets = teach(model.config, batch)
    said, wanted = (values[targets != IGNORED] for values in (_predicted(model, fed), targets))
    if len(said) < 2:
        return None
    commonest, asked = (float(values.bincount().max()) / len(values) for values in (said, wanted))
    if commonest < SAME or asked >= SAME:
        return None
    return f"{commonest:.0%} of all predictions are the same; lower the learning rate, or look at the data"


def _ignores_source(model: Transformer, batch: Batch) -> str | None:
    """Every source is asked to go on with the first target: a model that reads its source says different things."""
    if model.encoder is None or model.decoder is None or len(batch["labels"]) < 2:
        return None
    few = {name: tensor[:SOURCES] for name, tensor in batch.items()}
    labels = few["labels"][:1].expand(len(few["labels"]), -1)
    fed, _ = teach(model.config, {**few, "labels": labels})
    with record(model, "decoder.*.cross.weights") as seen:
        said = _predicted(model, fed)[:, labels[0] != IGNORED]
    same = int((said == said[0]).all(-1).sum())
    if same < len(said):
        return None
    entropy = torch.stack([weights.entropy().mean() for weights in seen.values()]).mean()
    keep = fed.get("attention_mask")
    keys = fed["input_ids"].shape[1] if keep is None else float(keep.sum()) / len(keep)
    return (
        f"cross-attention ignores the source: {same} of {len(said)} sources give the same predictions; its "
        f"weights have {float(entropy):.2f} bits of entropy, evenly spread they would have {math.log2(keys):.2f}"
    )


def _predicted(model: Transformer, fed: Batch) -> Tensor:
    logits = model(**fed).logits
    assert logits is not None, "teach has looked at the head"
    return logits.argmax(-1)  # [B T]
