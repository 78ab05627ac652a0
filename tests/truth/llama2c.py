"""Reads llama2.c's first file format: a header of seven numbers, then the matrices of all layers, one kind at a time.

Its rotary positions turn neighbouring numbers, which is our layout "pairs", so that nothing has to be reordered.
"""

from pathlib import Path

import numpy as np
import torch

from clearhead.config import Attention, FeedForward, Head, Layer, Norm, Rotary, Stack, TransformerConfig
from clearhead.model.transformer import Transformer

KINDS = ("self_residual.before.gain", "self_attention.q.weight", "self_attention.k.weight", "self_attention.v.weight",
         "self_attention.o.weight", "feed_forward_residual.before.gain", "feed_forward.gate.weight",
         "feed_forward.down.weight", "feed_forward.up.weight")  # fmt: skip


def model_of(path: Path) -> Transformer:
    """The model; a vocabulary below 0 says that the head has a matrix of its own."""
    dim, hidden, layers, heads, groups, vocab, _ = np.fromfile(path, dtype="<i4", count=7).tolist()
    look = Attention(heads=heads, kv_heads=groups, causal=True, rotary=Rotary(layout="pairs"))
    layer = Layer(self_attention=look, feed_forward=FeedForward(dim=hidden, activation="silu", gated=True, bias=False))
    stack = Stack(layers=(layer,) * layers, vocab=abs(vocab), norm_out=True)
    head = Head(tied=vocab > 0)
    model = Transformer(
        TransformerConfig(dim=dim, norm=Norm(kind="rms"), decoder=stack, head=head, bos=1, eos=2, pad=None)
    )
    numbers = torch.from_numpy(np.fromfile(path, dtype="<f4", offset=28))
    wanted, at = dict(model.named_parameters()), 0
    each = [[f"decoder.layers.{i}.{kind}" for i in range(layers)] for kind in KINDS]
    for name in ["decoder.embedding.weight", *(name for names in each for name in names), "decoder.norm_out.gain"]:
        size = wanted[name].numel()
        wanted[name].data.copy_(numbers[at : at + size].view_as(wanted[name]))
        at += size
    assert at + 2 * 512 * dim // heads // 2 == len(numbers), "what is left are two tables of angles"
    return model.eval()


def pieces_of(path: Path, vocab: int) -> list[bytes]:
    """The vocabulary: for each token a score, a length and its bytes."""
    data, at, found = path.read_bytes(), 4, list[bytes]()
    for _ in range(vocab):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return found
