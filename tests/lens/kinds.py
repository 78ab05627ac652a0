"""Inputs for the small models of every kind, and models whose heads do known things."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from clearhead.config import (
    Attention,
    FeedForward,
    Layer,
    Positions,
    Stack,
    TextClassifier,
    TransformerConfig,
)
from clearhead.model.attention import Attention as AttentionModule
from clearhead.model.transformer import Transformer
from model.tiny import ALL, build, learned_decoder, learned_encoder, post_norm_translator, text

LABELS = ("good", "bad", "so so")


def shared_decoder() -> TransformerConfig:
    """One set of weights for both layers."""
    config = learned_decoder()
    assert config.decoder is not None
    return replace(config, decoder=replace(config.decoder, shared=(0, 0)))


def classifier() -> TransformerConfig:
    return replace(learned_encoder(), head=TextClassifier(labels=LABELS, pool="first"))


def classifying_translator() -> TransformerConfig:
    """The decoder reads the text again."""
    return replace(post_norm_translator(), head=TextClassifier(labels=LABELS, pool="last"))


KINDS = ALL | {f.__name__: f for f in (shared_decoder, classifier, classifying_translator)}


def example(name: str, seed: int = 0) -> tuple[Transformer, dict[str, Any]]:
    """The model, and arguments with labels: 2 texts, the second of an encoder's padded, or of a decoder's."""
    model = build(KINDS[name]())
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
    given: dict[str, Any] = {"input_ids": text(2, 7, 31, seed), "attention_mask": mask}
    if isinstance(model.config.head, TextClassifier):
        return model, {**given, "labels": torch.tensor([2, 0])}
    if model.config.encoder is not None and model.config.decoder is not None:
        return model, {**given, "decoder_input_ids": text(2, 9, seed=seed + 1), "labels": text(2, 9, seed=2)}
    labels = {} if model.config.head is None else {"labels": text(2, 7, seed=2)}
    return model, {**given, **labels}


def spread(out: Any) -> Tensor:
    """A number that everything in a result has a part in."""
    values = out.hidden if out.logits is None else out.logits
    weights = torch.linspace(-1, 1, values[0].numel(), dtype=values.dtype).view_as(values[0])
    return (values * weights).sum(-1).tanh().sum()


V, P, E = 23, 64, 96  # ids, positions, width of a head
D = 2 * V + P  # token, token before, position: one number for each, 1 where it is that
SURE = 40.0  # a score that leaves nothing for the others


def handmade(side: str) -> Transformer:
    """Layer 0: head 0 looks at the token before and writes down which it is, head 1 at its own place. Layer 1: head 0
    at what came after the same token before (an induction head), head 1 at the first token. Layer 2: head 0 at the
    same token elsewhere, head 1 everywhere. Across: head 0 at the same place, head 1 everywhere.

    side: encoder, decoder or both.
    """
    own, across = Attention(heads=2, head_dim=E, scale=1.0), Attention(heads=2, head_dim=E, scale=1.0)
    form = Layer(self_attention=own, feed_forward=FeedForward(dim=2), bare=True)
    ahead = replace(form, self_attention=replace(own, causal=True))
    reading = Stack(layers=(form,) * 3, vocab=V, positions=Positions(kind="learned", count=P))
    writing = replace(reading, layers=(ahead,) * 3)
    if side == "both":
        writing = replace(writing, layers=(replace(ahead, cross_attention=across),) * 3)
    stacks = {"encoder": reading, "decoder": writing}
    chosen: Any = stacks if side == "both" else {side: stacks[side]}
    model = Transformer(TransformerConfig(dim=D, pad=0, bos=1, **chosen)).eval()
    for parameter in (p for n, p in model.named_parameters() if "norm" not in n and "gain" not in n):
        parameter.data.zero_()
    for stack in (s for s in (model.encoder, model.decoder) if s is not None):
        stack.table.data[:, :V] = torch.eye(V)
        assert stack.positions is not None
        assert stack.positions.table is not None
        stack.positions.table.weight.data[:, 2 * V :] = torch.eye(P)
        _make([layer.self_attention for layer in stack.layers])  # type: ignore[misc]
        if side == "both" and stack is model.decoder:
            for layer in stack.layers:
                cross = layer.cross_attention
                cross.q.weight.data[:P, 2 * V :] = SURE * torch.eye(P)  # type: ignore[union-attr]
                cross.k.weight.data[:P, 2 * V :] = torch.eye(P)  # type: ignore[union-attr]
    return model


def _make(layers: list[AttentionModule]) -> None:
    token, before, place = slice(0, V), slice(V, 2 * V), slice(2 * V, D)
    first, second = slice(0, E), slice(E, 2 * E)

    def look(layer: int, head: slice, query: Tensor, key: Tensor) -> None:
        layers[layer].q.weight.data[head][: len(query)] = SURE * query
        layers[layer].k.weight.data[head][: len(key)] = key

    def part(where: slice, matrix: Tensor) -> Tensor:
        whole = torch.zeros(len(matrix), D)
        whole[:, where] = matrix
        return whole

    look(0, first, part(place, torch.diag(torch.ones(P - 1), 1)), part(place, torch.eye(P)))
    look(0, second, part(place, torch.eye(P)), part(place, torch.eye(P)))
    layers[0].v.weight.data[:V, token] = torch.eye(V)
    layers[0].o.weight.data[before, :V] = torch.eye(V)
    look(1, first, part(token, torch.eye(V)), part(before, torch.eye(V)))
    look(1, second, part(place, torch.ones(1, P)), part(place, torch.eye(P)[:1]))
    itself = torch.cat([part(token, torch.eye(V)), -part(place, torch.eye(P))])
    look(2, first, itself, itself.abs())
