"""Which tokens reach which through all layers, if attention were all that moves them: rollout, an approximation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clearhead.lens.aligning import mean_of_heads
from clearhead.lens.inputs import Inputs, at_rest, places, single
from clearhead.lens.record import record
from clearhead.lens.seen import Seen
from clearhead.lens.table import Table
from clearhead.model.transformer import Transformer

NOTE = (
    "An approximation: half of each state is taken to stay, half to be the mean of all heads' weights times the states "
    "before; values, feed-forwards and norms are left out."
)


def rollout(model: nn.Module, inputs: Inputs, *, stack: str | None = None) -> Table:
    """How much of each input token stands in each last state, by attention rollout: the product over the layers of
    (mean weights of the heads + identity) / 2 (Abnar & Zuidema 2020). An approximation, and the table says so.

    inputs: one sample (see inputs.py). stack: "encoder" or "decoder"; by default the one below the head. A decoder
    beside an encoder mixes in the rollout of the encoder at every cross-attention, half and half, so its columns are
    the source's tokens and then its own; `more["stack"]` says which. Each row [position, token] sums to 1. Parallel
    branches share with the state in equal parts. Raises ValueError for a stack that the model does not have.
    """
    with at_rest(model) as inner:
        kinds = [*inner.config.stacks]
        name = kinds[-1] if stack is None else stack
        if name not in kinds:
            raise ValueError(f"stack={name!r}; this model has {' and '.join(kinds)}")
        with record(inner, "*.weights") as seen:
            inner(**single(inner, inputs))
        flows = _encoder(inner, seen) if name == "encoder" else _decoder(inner, seen)
        read, width = seen.texts[-1], flows.shape[1] - len(flows)
        rows = places(inner, read.get(name), name, len(flows))
        source = places(inner, read.get("encoder"), "encoder", width) if width else []
    more = {"stack": ["encoder"] * width + [name] * len(rows)}
    return Table(f"rollout of the {name}", {"position": rows, "token": [*source, *rows]}, flows, "share", NOTE, more)


def _encoder(model: Transformer, seen: Seen) -> Tensor:
    """[K, K]."""
    assert model.config.encoder is not None
    first = seen["encoder.0.self.weights"]
    own = torch.eye(first.shape[2])
    for i in range(len(model.config.encoder.layers)):
        own = (own + _mixed(seen, f"encoder.{i}.self") @ own) / 2
    return own


def _decoder(model: Transformer, seen: Seen) -> Tensor:
    """[T, K + T]: the source's tokens, if there are any, and the decoder's own."""
    assert model.config.decoder is not None
    count, cross = seen["decoder.0.self.weights"].shape[2], "decoder.0.cross.weights" in seen
    source = torch.zeros(0, count)
    if cross:
        keys = seen["decoder.0.cross.weights"].shape[3]
        heard = "encoder.0.self.weights" in seen  # or its states were given
        source = torch.cat([_encoder(model, seen) if heard else torch.eye(keys), torch.zeros(keys, count)], dim=1)
    own = torch.cat([torch.zeros(count, len(source)), torch.eye(count)], dim=1)
    for i, layer in enumerate(model.config.decoder.layers):
        around = _mixed(seen, f"decoder.{i}.self") @ own
        if layer.parallel and cross:
            own = (own + around + _mixed(seen, f"decoder.{i}.cross") @ source) / 3
            continue
        own = (own + around) / 2
        if cross:
            own = (own + _mixed(seen, f"decoder.{i}.cross") @ source) / 2
    return own


def _mixed(seen: Seen, address: str) -> Tensor:
    return mean_of_heads([seen[f"{address}.weights"]]).float()
