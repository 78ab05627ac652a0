"""The models that are compared: one size, one kind of batch, several libraries. Each gives logits [B, T, V].

A library that is not installed is left out; `pip install clearhead[bench]` installs them all.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config import Attention, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.model.transformer import Transformer

PAD, START = 0, 1


@dataclass(frozen=True)
class Size:
    """Of one kind of model and its batch."""

    layers: int
    dim: int
    heads: int
    vocab: int
    tokens: int
    batch: int


class Batch(NamedTuple):
    """ids, keep: of the source (encoder) or of the only text; fed, targets: of the decoder."""

    ids: Tensor  # [B T]
    keep: Tensor | None  # [B T] boolean
    fed: Tensor  # [B T]
    targets: Tensor  # [B T], -100 = none


class Peer(NamedTuple):
    """A model of some library, and how it is called."""

    model: nn.Module
    logits: Callable[[Batch], Tensor]


def lm_batch(size: Size) -> Batch:
    """Text without padding: each token predicts the next."""
    ids = torch.randint(3, size.vocab, (size.batch, size.tokens + 1))
    return Batch(ids[:, :-1], None, ids[:, :-1], ids[:, 1:].contiguous())


def translation_batch(size: Size) -> Batch:
    """Pairs of texts of 53 to 100 % of the length, padded on the right: 23 % of the positions are padding."""
    lengths = torch.randint(round(size.tokens * 0.53), size.tokens + 1, (2, size.batch, 1))
    keep = torch.arange(size.tokens) < lengths  # [2 B T]
    ids = torch.randint(3, size.vocab, keep.shape).masked_fill(~keep, PAD)
    fed = torch.cat([torch.full((size.batch, 1), START), ids[1, :, :-1]], dim=1)
    return Batch(ids[0], keep[0], fed, ids[1].masked_fill(~keep[1], -100))


class Plain(nn.Module):
    """What one writes by hand: fused projections, one kernel call, nothing to see. Pre-norm, or post-norm across."""

    def __init__(self, size: Size, activation: Callable[[Tensor], Tensor], across: bool, causal: bool, post: bool):
        super().__init__()
        dim, self.heads, self.causal, self.post = size.dim, size.heads, causal, post
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3 if across else 2))
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q, self.kv, self.mixed = (nn.Linear(dim, n * dim) if across else None for n in (1, 2, 1))
        self.up, self.down, self.activation = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim), activation

    def forward(self, x: Tensor, mask: Tensor | None, memory: Tensor | None = None) -> Tensor:
        own = mask if memory is None else None
        x = self.add(0, x, lambda h: self.out(self.attend(*self.qkv(h).chunk(3, -1), own, self.causal)))
        if memory is not None:
            x = self.add(2, x, lambda h: self.mixed(self.attend(self.q(h), *self.kv(memory).chunk(2, -1), mask)))
        return self.add(1, x, lambda h: self.down(self.activation(self.up(h))))

    def add(self, i: int, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norms[i](x + f(x)) if self.post else x + f(self.norms[i](x))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal).transpose(1, 2).flatten(2)


class Ends(nn.Module):
    """Table, learned positions, last norm and tied head, for the peers that come without."""

    def __init__(self, size: Size, norm: bool):
        super().__init__()
        self.table, self.places = nn.Embedding(size.vocab, size.dim), nn.Embedding(size.tokens, size.dim)
        self.norm = nn.LayerNorm(size.dim) if norm else nn.Identity()
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids) + self.places(torch.arange(ids.shape[1]))

    def logits(self, x: Tensor) -> Tensor:
        return F.linear(self.norm(x), self.table.weight)


def installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def decoders(size: Size) -> dict[str, Peer]:
    """GPT-2 like: pre-norm, learned positions, biases everywhere, tanh gelu, tied head."""
    layer = Layer(
        self_attention=Attention(heads=size.heads, causal=True, bias="qkvo"),
        feed_forward=FeedForward(dim=4 * size.dim, activation="gelu_tanh"),
    )
    rows = Positions(kind="learned", count=size.tokens)
    stack = Stack(layers=(layer,) * size.layers, vocab=size.vocab, positions=rows, norm_out=True)
    ours = Transformer(TransformerConfig(dim=size.dim, decoder=stack, init_std=0.02))

    plain = nn.ModuleList(Plain(size, gelu_tanh, across=False, causal=True, post=False) for _ in range(size.layers))
    ends = Ends(size, norm=True)

    def run_plain(b: Batch) -> Tensor:
        x = ends.embed(b.ids)
        for block in plain:
            x = block(x, None)
        return ends.logits(x)

    shape = {"d_model": size.dim, "nhead": size.heads, "dim_feedforward": 4 * size.dim, "dropout": 0.0}
    block = nn.TransformerEncoderLayer(**shape, activation=gelu_tanh, batch_first=True, norm_first=True)
    torch_stack, torch_ends = nn.TransformerEncoder(block, size.layers, enable_nested_tensor=False), Ends(size, True)
    later = nn.Transformer.generate_square_subsequent_mask(size.tokens)

    def run_torch(b: Batch) -> Tensor:
        return torch_ends.logits(torch_stack(torch_ends.embed(b.ids), mask=later, is_causal=True))

    peers = {
        "clearhead": Peer(ours, lambda b: ours(b.ids).logits),
        "plain block": Peer(nn.ModuleList([plain, ends]), run_plain),
        "nn.TransformerEncoder": Peer(nn.ModuleList([torch_stack, torch_ends]), run_torch),
    }
    if installed("x_transformers"):
        x = x_stack(size, "lm")
        peers["x-transformers"] = Peer(x, lambda b: x(b.ids))
    return peers | (gpt2(size) if installed("transformers") else {})


def x_stack(size: Size, kind: str, table: nn.Module | None = None) -> nn.Module:
    """A stack of x-transformers with the others' activation: "lm", or "encoder" or "decoder" of a translator."""
    import x_transformers

    shape = {"dim": size.dim, "depth": size.layers, "heads": size.heads}
    shape |= {"attn_dim_head": size.dim // size.heads, "attn_flash": True}
    shape["ff_custom_activation"] = nn.GELU(approximate="tanh") if kind == "lm" else nn.ReLU()
    if kind == "encoder":
        layers = x_transformers.Encoder(**shape)
    else:
        layers = x_transformers.Decoder(**shape, cross_attend=kind == "decoder")
    return x_transformers.TransformerWrapper(
        num_tokens=size.vocab, max_seq_len=size.tokens, attn_layers=layers, token_emb=table, tie_embedding=True
    )


def gpt2(size: Size) -> dict[str, Peer]:
    """Hugging Face's, with the fused kernel and with attention written out."""
    import transformers

    peers: dict[str, Peer] = {}
    for kind, name in (("sdpa", "HF GPT-2 fused"), ("eager", "HF GPT-2 open")):
        form = transformers.GPT2Config(
            vocab_size=size.vocab, n_positions=size.tokens, n_embd=size.dim, n_layer=size.layers, n_head=size.heads,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=START, eos_token_id=2,
        )  # fmt: skip
        form._attn_implementation = kind
        hf = transformers.GPT2LMHeadModel(form)
        peers[name] = Peer(hf, lambda b, hf=hf: hf(b.ids).logits)
    return peers


def translators(size: Size) -> dict[str, Peer]:
    """Marian like: post-norm, biases everywhere, relu, one table for source, target and output."""
    look, forward = Attention(heads=size.heads, bias="qkvo"), FeedForward(dim=4 * size.dim)
    own = Attention(heads=size.heads, bias="qkvo", causal=True)
    encoder = Layer(self_attention=look, feed_forward=forward, norm_place="post")
    decoder = Layer(self_attention=own, feed_forward=forward, cross_attention=look, norm_place="post")
    rows = Positions(kind="learned", count=size.tokens)
    stacks = [Stack(layers=(layer,) * size.layers, vocab=size.vocab, positions=rows) for layer in (encoder, decoder)]
    form = TransformerConfig(dim=size.dim, encoder=stacks[0], decoder=stacks[1], head=Head(), shared_embeddings=True)
    ours = Transformer(form)

    first = nn.ModuleList(Plain(size, F.relu, across=False, causal=False, post=True) for _ in range(size.layers))
    second = nn.ModuleList(Plain(size, F.relu, across=True, causal=True, post=True) for _ in range(size.layers))
    ends = Ends(size, norm=False)

    def run_plain(b: Batch) -> Tensor:
        mask = b.keep[:, None, None, :]
        x, y = ends.embed(b.ids), ends.embed(b.fed)
        for block in first:
            x = block(x, mask)
        for block in second:
            y = block(y, mask, x)
        return ends.logits(y)

    both = nn.Transformer(size.dim, size.heads, size.layers, size.layers, 4 * size.dim, 0.0, batch_first=True)
    both_ends = Ends(size, norm=False)
    later = nn.Transformer.generate_square_subsequent_mask(size.tokens).isinf()

    def run_torch(b: Batch) -> Tensor:
        hidden = both(
            both_ends.embed(b.ids), both_ends.embed(b.fed), tgt_mask=later, tgt_is_causal=True,
            src_key_padding_mask=~b.keep, memory_key_padding_mask=~b.keep,
        )  # fmt: skip
        return both_ends.logits(hidden)

    peers = {
        "clearhead": Peer(ours, lambda b: ours(b.ids, b.keep, b.fed).logits),
        "plain block": Peer(nn.ModuleList([first, second, ends]), run_plain),
        "nn.Transformer": Peer(nn.ModuleList([both, both_ends]), run_torch),
    }
    if installed("x_transformers"):
        x_encoder = x_stack(size, "encoder")
        x_decoder = x_stack(size, "decoder", table=x_encoder.token_emb)

        def run_x(b: Batch) -> Tensor:
            states = x_encoder(b.ids, mask=b.keep, return_embeddings=True)
            return x_decoder(b.fed, context=states, context_mask=b.keep)

        peers["x-transformers"] = Peer(nn.ModuleList([x_encoder, x_decoder]), run_x)
    return peers | (marian(size) if installed("transformers") else {})


def marian(size: Size) -> dict[str, Peer]:
    """Hugging Face's, with the fused kernel and with attention written out."""
    import transformers

    peers: dict[str, Peer] = {}
    sizes = {
        f"{name}_{key}": value
        for name in ("encoder", "decoder")
        for key, value in (("layers", size.layers), ("attention_heads", size.heads), ("ffn_dim", 4 * size.dim))
    }
    for kind, name in (("sdpa", "HF Marian fused"), ("eager", "HF Marian open")):
        form = transformers.MarianConfig(
            vocab_size=size.vocab, d_model=size.dim, max_position_embeddings=size.tokens, activation_function="relu",
            dropout=0.0, pad_token_id=PAD, eos_token_id=2, decoder_start_token_id=START, forced_eos_token_id=None,
            use_cache=False, **sizes,
        )  # fmt: skip
        form._attn_implementation = kind
        hf = transformers.MarianMTModel(form)
        peers[name] = Peer(hf, lambda b, hf=hf: hf(b.ids, b.keep.long(), decoder_input_ids=b.fed).logits)
    return peers
