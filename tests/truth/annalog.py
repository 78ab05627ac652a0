"""The Transformer of a well-known tutorial in PyTorch (post-norm, learned positions), trained by annalog on SMILES."""

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.model.transformer import Transformer

NAMES = {
    "tok_embedding": "embedding",
    "pos_embedding": "positions.table",
    "self_attn_layer_norm.": "self_residual.total.",
    "enc_attn_layer_norm.": "cross_residual.total.",
    "ff_layer_norm.": "feed_forward_residual.total.",
    "total.weight": "total.gain",
    "total.bias": "total.shift",
    "encoder_attention.": "cross_attention.",
    "fc_1": "up",
    "fc_2": "down",
    "positionwise_feedforward": "feed_forward",
    "decoder.fc_out": "head",
    "fc_": "",
}


class PlainUnpickler(pickle.Unpickler):
    """Dictionaries, lists, strings and numbers only."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def vocabulary(file: Path) -> list[str]:
    with file.open("rb") as opened:
        return PlainUnpickler(opened).load()["itos"]


def load(file: Path, vocab: list[str]) -> Transformer:
    look = Attention(heads=8, bias="qkvo")
    read = Layer(self_attention=look, feed_forward=FeedForward(dim=512), norm_place="post")
    write = replace(read, self_attention=replace(look, causal=True), cross_attention=look)
    table = Positions(kind="learned", count=102)
    stack = Stack(layers=(read,) * 3, vocab=len(vocab), positions=table, embedding_scale=256**0.5)
    ids = {name: vocab.index(f"<{sign}>") for name, sign in {"pad": "pad", "bos": "sos", "eos": "eos"}.items()}
    head = Head(tied=False, bias=True)
    config = TransformerConfig(dim=256, encoder=stack, decoder=replace(stack, layers=(write,) * 3), head=head, **ids)
    model, tensors = Transformer(config), torch.load(file, weights_only=True, map_location="cpu")
    for name in list(tensors):
        value, new = tensors.pop(name), name
        for theirs, ours in NAMES.items():
            new = re.sub(re.escape(theirs), ours, new)
        tensors[new] = value
    model.load_state_dict(tensors)
    return model.eval()
