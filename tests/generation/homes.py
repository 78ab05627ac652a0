"""Tiny random models of transformers, each with a Transformer of ours that holds the same weights."""

import re
from typing import Any

import torch
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel

from clearhead.config import Attention, FeedForward, Layer, Positions, Stack, TransformerConfig
from clearhead.model.transformer import Transformer

BOS, PAD, EOS = 0, 1, 2
THEIR_IDS = {"bos_token_id": BOS, "pad_token_id": PAD, "eos_token_id": EOS}
# Theirs (a regular expression) = ours, applied in order.
GPT2 = r"""
    wte=embedding  wpe=positions.table  h\.=layers.  ln_f=norm_out  attn\.c_proj=self_attention.o
    ln_1=self_residual.before  ln_2=feed_forward_residual.before
    mlp\.c_fc=feed_forward.up  mlp\.c_proj=feed_forward.down
    ((norm_out|before)\.)weight=\1gain  ((norm_out|before)\.)bias=\1shift"""
BART = r"""
    embed_tokens=embedding  embed_positions=positions.table  layernorm_embedding=norm_in
    self_attn_layer_norm=self_residual.total  encoder_attn_layer_norm=cross_residual.total
    final_layer_norm=feed_forward_residual.total  self_attn=self_attention  encoder_attn=cross_attention
    ([qkv])_proj=\1  out_proj=o  fc1=feed_forward.up  fc2=feed_forward.down
    ((norm_in|total)\.)weight=\1gain  ((norm_in|total)\.)bias=\1shift"""


def gpt2(seed: int = 0, vocab: int = 23, std: float = 0.4) -> tuple[GPT2LMHeadModel, Transformer]:
    """Decoder only: pre-norm, learned positions (64), tied head."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": vocab, "n_positions": 64, "n_embd": 12, "n_layer": 2, "n_head": 3, "initializer_range": std}
    home = GPT2LMHeadModel(GPT2Config(**sizes, **THEIR_IDS)).eval()
    own, feed = Attention(heads=3, causal=True, bias="qkvo"), FeedForward(dim=48, activation="gelu_tanh")
    layers = (Layer(self_attention=own, feed_forward=feed),) * 2
    stack = Stack(layers=layers, vocab=vocab, positions=Positions(kind="learned", count=64), norm_out=True)
    ours = Transformer(TransformerConfig(dim=12, decoder=stack, bos=BOS, pad=PAD, eos=EOS)).eval()
    weights: dict[str, Tensor] = {}
    for name, value in home.transformer.state_dict().items():
        value = value.T if ".c_" in name and name.endswith("weight") else value  # stored the other way round
        for part, rows in zip("qkv", value.chunk(3), strict=False):
            weights[name.replace("attn.c_attn", f"self_attention.{part}")] = rows if "c_attn" in name else value
    ours.load_state_dict({f"decoder.{_renamed(name, GPT2)}": value for name, value in weights.items()})
    return home, ours


def bart(seed: int = 0, vocab: int = 19, std: float = 0.4) -> tuple[BartForConditionalGeneration, Transformer]:
    """Encoder and decoder: post-norm, learned positions (64) from row 2 on, one embedding for everything."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": vocab, "max_position_embeddings": 64, "d_model": 12, "init_std": std}
    layers: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 28}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 3, "decoder_start_token_id": EOS}
    home = BartForConditionalGeneration(BartConfig(**sizes, **layers, **heads, **THEIR_IDS)).eval()
    home.generation_config.forced_eos_token_id = None

    def layer(own: Attention, cross: Attention | None, width: int) -> Layer:
        feed = FeedForward(dim=width, activation="gelu")
        return Layer(self_attention=own, cross_attention=cross, feed_forward=feed, norm_place="post")

    read = layer(Attention(heads=2, bias="qkvo"), None, 20)
    write = layer(Attention(heads=3, causal=True, bias="qkvo"), Attention(heads=3, bias="qkvo"), 28)
    shared: dict[str, Any] = {"vocab": vocab, "positions": Positions(kind="learned", count=64, offset=2)}
    encoder, decoder = (Stack(layers=stack, norm_in=True, **shared) for stack in ((read,), (write,) * 2))
    ids = {"bos": BOS, "pad": PAD, "eos": EOS, "start": EOS}
    ours = Transformer(TransformerConfig(dim=12, encoder=encoder, decoder=decoder, shared_embeddings=True, **ids))
    weights = {_renamed(name, BART): value for name, value in home.model.state_dict().items() if "shared" not in name}
    ours.load_state_dict(weights)
    return home, ours.eval()


def _renamed(name: str, table: str) -> str:
    for pair in table.split():
        theirs, ours = pair.split("=")
        name = re.sub(theirs, ours, name)
    return name
