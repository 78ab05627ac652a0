"""Laws that need the inside of a model: its caches, its weights, its heads. They are known for ours only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import torch

from clearhead.checker.law import Law, Model, gap, law, missing
from clearhead.checker.reached import dense
from clearhead.generation.beam import beam_search
from clearhead.generation.loop import begin, steps
from clearhead.generation.options import Options
from clearhead.lens.record import record
from clearhead.lens.seen import Seen
from clearhead.model.attention import Attention
from clearhead.model.cache import Cache
from clearhead.model.layer import Layer, Residual
from clearhead.model.stack import Stack
from clearhead.model.transformer import Transformer

NEW = 6  # tokens to write


def ours(name: str, model: Model, decoder: bool = False) -> Transformer | Law:
    """The model as a Transformer, or the law as not applicable, with the reason."""
    if not isinstance(model.module, Transformer):
        return missing(name, "the inside of a model is known for clearhead.Transformer only")
    if decoder and model.module.decoder is None:
        return missing(name, "the model has no decoder")
    return model.module


def cached(model: Model) -> Law:
    """Token by token through the cache gives what one pass gives."""
    name = "cached = full"
    own = ours(name, model, decoder=True)
    if isinstance(own, Law):
        return own

    def difference(count: int) -> float:
        x, cache = model.draw(2, count), Cache()
        source = model.source(x) if model.two_sided else None
        made = [model(x[:, t : t + 1], source=source, cache=cache) for t in range(count)]
        return gap(torch.cat(made, 1), model(x))

    return law(name, difference, "cache-position-zero")


def beam_of_one(model: Model) -> Law:
    """Beam search with one beam writes what greedy choice writes."""
    name = "beam of one = greedy"
    own = ours(name, model, decoder=True)
    if isinstance(own, Law):
        return own

    def difference(count: int) -> float:
        x: torch.Tensor | None = model.draw(1, count)
        options = Options(max_new_tokens=NEW)
        if model.sound:
            x, options = None, replace(options, input_features=model.source(x))
        progress, stop = begin(own, x, None, options)
        for _ in steps(progress, stop, options):
            pass
        searched, _ = beam_search(*begin(own, x, None, options), options)
        return gap(searched, progress.ids)

    return law(name, difference)


def seen(model: Model, own: Transformer, count: int) -> Seen:
    """A pass over a text with one hidden token at its start, recorded: a query may then see nothing at all."""
    x, mask = model.draw(2, count), torch.ones(2, count, dtype=torch.int64)
    mask[0, 0] = 0
    with record(own, ["*.weights", "*.scores", "*.v", "*.heads", "*.out"]) as found:
        model(x, mask)
    return found


def attentions(model: Transformer) -> Iterator[tuple[str, Attention, Residual]]:
    """(address, module, the residual that takes its output) of every attention."""
    for name in model.config.stacks:
        stack = cast("Stack", model.get_submodule(name))
        for i, layer in enumerate(cast("Layer", stack.layers[weights]) for weights in stack.order):
            yield f"{name}.{i}.self", layer.self_attention, layer.self_residual
            if layer.form.cross_attention is not None:
                yield f"{name}.{i}.cross", layer.cross_attention, layer.cross_residual


def of_attentions(name: str, model: Model, differ: Callable[[Seen, str, Attention, Residual], float]) -> Law:
    """The law that `differ` is 0 at every attention."""
    own = ours(name, model)
    if isinstance(own, Law):
        return own

    def difference(count: int) -> float:
        found = seen(model, own, count)
        with torch.no_grad():
            return max(differ(found, *place) for place in attentions(own))

    return law(name, difference)


def rows(model: Model) -> Law:
    """Weights sum to 1 in every row, and to 0 where a query sees nothing."""

    def differ(found: Seen, address: str, attention: Attention, residual: Residual) -> float:
        weights = dense(found[f"{address}.weights"])
        sees = (dense(found[f"{address}.scores"]) > -torch.inf).any(-1)
        return gap(weights.sum(-1), sees.to(weights.dtype))

    return of_attentions("rows of weights sum to 1, or to 0 where a query sees nothing", model, differ)


def mixed(model: Model) -> Law:
    """The heads are the weights times the values, by whatever way they were computed."""

    def differ(found: Seen, address: str, attention: Attention, residual: Residual) -> float:
        form, v = attention.form, dense(found[f"{address}.v"])
        v = v.repeat_interleave(form.heads // form.groups, dim=1)
        return gap(dense(found[f"{address}.heads"]), dense(found[f"{address}.weights"]) @ v)

    return of_attentions("heads are the weights times the values", model, differ)


def summed(model: Model) -> Law:
    """What the heads add, each through its own columns of W_o, sums to the attention's output."""

    def differ(found: Seen, address: str, attention: Attention, residual: Residual) -> float:
        heads = dense(found[f"{address}.heads"])  # [B H Q E]
        columns = attention.o.weight.unflatten(1, (heads.shape[1], -1))  # [D H E]
        total = torch.einsum("bhqe,dhe->bqd", heads, columns)
        total = total if attention.o.bias is None else total + attention.o.bias  # pyright: ignore[reportUnnecessaryComparison]
        return gap(dense(found[f"{address}.out"]), residual.after(total))

    return of_attentions("heads sum to the output", model, differ)


INSIDE = (cached, beam_of_one, rows, mixed, summed)
