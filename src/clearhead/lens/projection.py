"""What the model's own head makes of a part of the residual: the logit lens and direct logit attribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from clearhead.lens.inputs import Inputs, at_rest, names, place, single, token_id
from clearhead.lens.record import record
from clearhead.lens.seen import Seen
from clearhead.lens.table import Table
from clearhead.model.attention import Attention
from clearhead.model.head import Head
from clearhead.model.layer import Layer, Residual
from clearhead.model.norm import Norm
from clearhead.model.transformer import Transformer


def logit_lens(model: nn.Module, inputs: Inputs, *, top: int = 5, target: int | str | None = None) -> Table:
    """What the model would say if it ended after each layer: its own final norm and head on every residual
    (nostalgebraist 2020).

    inputs: one sample (see inputs.py); of an encoder-decoder the decoder is read. The table holds the probabilities
    [layer, position, rank] of the `top` likeliest tokens; `more` their ids and names, and of a `target` token (an id
    or a piece) its probability and rank (1 = likeliest) at each [layer, position]. Layer "embed" is what enters layer
    0; the last layer's row is what the model says. Raises ValueError for a model whose head names no tokens.
    """
    with at_rest(model) as inner:
        name, head = _last(inner)
        stack, vocab = inner.last, inner.last.form.vocab
        if not 1 <= top <= vocab:
            raise ValueError(f"top={top}; there are {vocab} tokens, ask for 1 to {vocab}")
        asked = None if target is None else token_id(inner, target, name)
        with record(inner, [f"{name}.embed", f"{name}.*.residual"]) as seen:
            inner(**single(inner, inputs))
        found = [_said(head(stack.norm_out(state), stack.table)[0], top, asked) for state in seen.values()]
        read = names(inner, seen.texts[-1][name][0], name)
        ids = torch.stack([said.ids for said in found])
        pieces = [[names(inner, place, name) for place in layer] for layer in ids]
    more = {"ids": ids.tolist(), "tokens": pieces}
    if asked is not None:
        more |= {"target": names(inner, torch.tensor([asked]), name)[0]}
        more |= {f"target_{what}": [getattr(said, what).tolist() for said in found] for what in ("probability", "rank")}
    layers = ["embed", *(str(i) for i in range(len(stack.form.layers)))]
    axes = {"layer": layers, "position": read, "rank": [str(i + 1) for i in range(top)]}
    note = "The final norm and the head were trained for the last layer; earlier ones may use other directions."
    values = torch.stack([said.values for said in found])
    return Table(f"logit lens of the {name}", axes, values, "probability", note, more)


class _Said(NamedTuple):
    """What one layer's logits say: the likeliest tokens [T, top], and of the target token its place [T]."""

    values: Tensor
    ids: Tensor
    probability: Tensor
    rank: Tensor


def _said(logits: Tensor, top: int, target: int | None) -> _Said:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    p = wide.softmax(-1)
    values, ids = p.topk(top, dim=-1)
    one = wide[:, [target or 0]]
    return _Said(values.cpu(), ids.cpu(), p[:, target or 0].cpu(), (wide > one).sum(-1).cpu() + 1)


def direct_logit_attribution(
    model: nn.Module, inputs: Inputs, token: int | str, position: int = -1, *, against: int | str | None = None
) -> Table:
    """How much the embedding, each head, each bias and each feed-forward adds to the logit of a token, directly
    through the residual (Elhage et al. 2021); with `against`, to its logit minus that of another token.

    inputs: one sample (see inputs.py). A norm between a part and the logit (the final one, and one on a branch's
    output) is divided by what it is divided by in this run, so that it is linear and the parts sum to the logit, before
    a soft cap. `more` holds the model's logit and the remainder: rounding, or what an edit did after the branches.

    Raises ValueError for a post-norm stack, a head with a dense layer before it, and one that names no tokens.
    """
    with at_rest(model) as inner:
        name, head = _last(inner)
        _check_linear(inner, name, head)
        given = single(inner, inputs)
        pair = [token_id(inner, t, name) for t in ([token] if against is None else [token, against])]
        sites = [f"{name}.embed", f"{name}.*.heads", f"{name}.*.feed_forward.out", f"{name}.*.residual"]
        with record(inner, sites, dtype=torch.float64, device="cpu") as seen:
            logits = inner(**given).logits
        at = place(inner, given, position, logits.shape[1])
        parts = _parts(inner, head, seen, name, at, pair)
    labels, values = [*parts], torch.tensor([*parts.values()], dtype=torch.float64)
    spoken = names(inner, torch.tensor(pair), name)
    said = f"the logit of {spoken[0]!r}" + (f" minus that of {spoken[1]!r}" if against is not None else "")
    logit = [_uncapped(float(x), head.form.softcap) for x in logits[0, at, pair]]
    whole = logit[0] - sum(logit[1:])
    note = "Norms on the way are divided by what they are divided by in this run."
    note += "" if head.form.softcap is None else f" The logit is that before the soft cap of {head.form.softcap:g}."
    more = {"token": spoken, "position": at, "logit": whole, "remainder": whole - float(values.sum())}
    return Table(f"direct contributions to {said} at position {at}", {"part": labels}, values, "logit", note, more)


def _last(model: Transformer) -> tuple[str, Head]:
    """The stack below the head, by name, and the head. ValueError unless it names tokens."""
    if not isinstance(model.head, Head):
        kind = "None" if model.config.head is None else f"a {type(model.config.head).__name__}"
        raise ValueError(f"config.head is {kind}; this question is about a head with one logit for each token")
    return [*model.config.stacks][-1], model.head


def _check_linear(model: Transformer, name: str, head: Head) -> None:
    for i, layer in enumerate(model.config.stacks[name].layers):
        if layer.norm_place == "post":
            raise ValueError(
                f"{name}.layers[{i}].norm_place is 'post': every branch is followed by a norm of the whole residual, "
                "which mixes and rescales all that came before, so no part reaches the logit on its own; "
                "ask head_importance or patch_sweep instead"
            )
    if head.form.dense is not None:
        raise ValueError(
            f"config.head.dense is {head.form.dense}: it stands between the residual and the logit, "
            "so no part reaches it on its own; ask head_importance or patch_sweep instead"
        )


def _parts(model: Transformer, head: Head, seen: Seen, name: str, at: int, pair: list[int]) -> dict[str, float]:
    """What each part adds to the logit of the first token minus that of the second."""
    stack = model.last
    matrix = (stack.table if head.weight is None else head.weight)[pair].double().cpu()
    u = (matrix[0] - matrix[1:].sum(0)) * head.form.scale  # the direction of the logit, [D]
    u, shift = _through(stack.norm_out, seen[f"{name}.{len(stack.order) - 1}.residual"][0, at], u)
    found = {f"{name}.embed": float(seen[f"{name}.embed"][0, at] @ u)}
    for i, weights in enumerate(stack.order):
        layer = stack.layers[weights]
        assert isinstance(layer, Layer)
        for part, attention, residual in _attentions(layer):
            address = f"{name}.{i}.{part}"
            added, rest = _heads(attention, residual, seen[f"{address}.heads"][0, :, at], u)
            found |= {f"{address} head {h}": x for h, x in enumerate(added)}
            found |= {} if rest is None else {f"{address} bias": rest}
        found[f"{name}.{i}.feed_forward"] = float(seen[f"{name}.{i}.feed_forward.out"][0, at] @ u)
    found |= {} if shift is None else {f"{name}.final bias": shift}
    if head.bias is not None:
        bias = head.bias[pair].double()
        found["logits bias"] = float(bias[0] - bias[1:].sum())
    return found


def _attentions(layer: Layer) -> Iterator[tuple[str, Attention, Residual]]:
    yield "self", layer.self_attention, layer.self_residual
    if layer.form.cross_attention is not None:
        yield "cross", layer.cross_attention, layer.cross_residual


def _heads(attention: Attention, residual: Residual, heads: Tensor, u: Tensor) -> tuple[list[float], float | None]:
    """What each head [H, E] adds along u, and the biases behind them."""
    weight = attention.o.weight.double().cpu().unflatten(1, heads.shape)  # [D H E]
    added = torch.einsum("dhe,he->hd", weight, heads)
    bias = attention.o.bias.double().cpu() if "o" in attention.form.bias else None
    u, shift = _through(residual.after, added.sum(0) + (0.0 if bias is None else bias), u)
    rest = None if bias is None and shift is None else (shift or 0.0) + (0.0 if bias is None else float(bias @ u))
    return (added @ u).tolist(), rest


def _through(norm: nn.Module, x: Tensor, u: Tensor) -> tuple[Tensor, float | None]:
    """u . norm(x), the divisor being that of this x, as a direction in x and a constant (None if there is none)."""
    if not isinstance(norm, Norm):
        return u, None
    gain = norm.gain.double().cpu()
    v = u * (1.0 + gain if norm.form.kind == "rms_plus_one" else gain)
    if norm.form.kind in ("layer", "layer_gain"):  # taking the mean off is linear, and its own transpose
        x, v = x - x.mean(), v - v.mean()
    v = v * torch.rsqrt(x.square().mean() + norm.form.eps)
    return v, None if norm.shift is None else float(norm.shift.double().cpu() @ u)


def _uncapped(logit: float, cap: float | None) -> float:
    return logit if cap is None else cap * float(torch.atanh(torch.tensor(logit / cap, dtype=torch.float64)))
