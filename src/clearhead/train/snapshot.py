"""Where every head looks in a few sentences: what is kept of a model at chosen steps of its training.

For each attention and query the strongest keys and the entropy, read from a recording: O(n) numbers for n tokens.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.generation.generate import generate
from clearhead.lens.inputs import arguments
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.model.transformer import Transformer

STRONGEST = 8


@torch.no_grad()
def snapshot(model: Transformer, texts: Sequence[str]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Tensors by text and address, such as 0.decoder.3.self.entropy [H, Q] (bits), .top and .keys [H, Q, 8]; tokens.

    The model is in eval mode and has its tokenizer. A translator reads each text beside its own translation of it. The
    tokens of each text stand by stack.
    """
    tensors: dict[str, Tensor] = {}
    said: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        given = arguments(model, text)
        if model.encoder is not None and model.decoder is not None:
            written = generate(model, given["input_ids"], given.get("attention_mask"), max_new_tokens=64)
            assert isinstance(written, Tensor), "nothing more was asked for"
            given["decoder_input_ids"] = written[:, :-1]
        with record(model, "*.weights") as seen:
            model(**given)
        for address, view in seen.items():
            assert isinstance(view, Weights), "a look opens no attention"
            place = f"{number}.{address.removesuffix('.weights')}"
            top, keys = view.top(min(STRONGEST, view.shape[-1]))
            tensors |= {f"{place}.top": top[0], f"{place}.keys": keys[0], f"{place}.entropy": view.entropy()[0]}
        said.append({"text": text, "tokens": _tokens(model, given)})
    return {name: tensor.cpu() for name, tensor in tensors.items()}, said


def _tokens(model: Transformer, given: dict[str, Any]) -> dict[str, list[str]]:
    assert model.tokenizer is not None, "arguments has read with it"
    stacks = [*model.config.stacks]
    ids = {stacks[0]: given["input_ids"]}
    if len(stacks) == 2:
        ids[stacks[1]] = given["decoder_input_ids"]
    return {
        stack: model.tokenizer.pieces(row[0].tolist(), target=stack == "decoder" and len(stacks) == 2)
        for stack, row in ids.items()
    }
