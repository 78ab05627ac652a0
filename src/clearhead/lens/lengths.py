"""How long the vectors of the residual stream are, and those that each branch adds to it."""

from __future__ import annotations

import torch
from torch import nn

from clearhead.lens.inputs import Inputs, at_rest, places, single
from clearhead.lens.record import record
from clearhead.lens.table import Table

BRANCHES = ("self.out", "cross.out", "feed_forward.out")


def norms(model: nn.Module, inputs: Inputs, *, stack: str | None = None) -> Table:
    """The L2 norm of every vector of the residual stream and of what each branch adds to it, [place, position].

    Places, in the order of the forward pass: "embed"; of each layer "0 self", "0 cross" and "0 feed_forward", what the
    branch adds (after its own norm, if it has one behind it), and "0 residual", what the layer passes on; "final", what
    the head is given. A position whose residual is many times longer than the others' often is where heads rest that
    have nothing to look for (Sun et al. 2024, "Massive Activations in Large Language Models").

    inputs: one sample (see inputs.py). stack: "encoder" or "decoder"; by default the one below the head. Raises
    ValueError for a stack that the model does not have.
    """
    with at_rest(model) as inner:
        kinds = [*inner.config.stacks]
        name = kinds[-1] if stack is None else stack
        if name not in kinds:
            raise ValueError(f"stack={name!r}; this model has {' and '.join(kinds)}")
        form = inner.config.stacks[name]
        branches = [site for site in BRANCHES if site != "cross.out" or form.layers[0].cross_attention is not None]
        wanted = [f"{name}.*.{site}" for site in (*branches, "residual")]
        with record(inner, [f"{name}.embed", *wanted, f"{name}.final"]) as seen:
            inner(**single(inner, inputs))
        wide = [value[0].to(torch.promote_types(value.dtype, torch.float32)) for value in seen.values()]
        values = torch.stack([value.norm(dim=-1).cpu() for value in wide])
        read = places(inner, seen.texts[-1].get(name), name, values.shape[1])
    said = [address.removeprefix(f"{name}.").removesuffix(".out").replace(".", " ") for address in seen]
    return Table(f"norms of the {name}", {"place": said, "position": read}, values, "L2 norm")
