"""The names of TransformerLens for what is recorded, with its shapes. To read only.

A name is there where both mean the same numbers: not `hook_q` where ours are turned by position (that is `hook_rot_q`),
nor `hook_attn_out` where a norm follows the sum. `ln_final.hook_normalized` is the state before the norm's gain, which
is no address of ours; `ln_final.hook_out` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import Tensor

from clearhead.config import Attention, Head, Layer, Stack, TransformerConfig
from clearhead.lens.listen import chosen
from clearhead.lens.rows import Scores
from clearhead.tap import sites


def aliases(config: TransformerConfig) -> dict[str, str]:
    """TransformerLens's names for the addresses of a model: `blocks.3.attn.hook_pattern` -> decoder.3.self.weights.

    Beside each other, stacks are `encoder_blocks` and `decoder_blocks`, as in its version 4.
    """
    found: dict[str, str] = {}
    for name, stack in config.stacks.items():
        theirs = f"{name}_" if len(config.stacks) == 2 else ""
        for i, layer in enumerate(stack.layers):
            found[f"{theirs}blocks.{i}.hook_resid_pre"] = f"{name}.{i - 1}.residual" if i else f"{name}.embed"
            found |= {f"{theirs}blocks.{i}.{hook}": f"{name}.{i}.{site}" for hook, site in _of_layer(layer).items()}
        if stack.norm_out:
            found[f"{theirs}ln_final.hook_out"] = f"{name}.final"
        if not theirs and _embeds_only(stack):
            found["hook_embed"] = f"{name}.embed"
    if isinstance(config.head, Head) and config.head.softcap is None:
        found["unembed.hook_out"] = "logits"
    return found


def _of_layer(layer: Layer) -> dict[str, str]:
    across, found = layer.cross_attention, {"hook_resid_post": "residual", "hook_mlp_out": "feed_forward.out"}
    found["mlp.hook_post"] = "feed_forward.hidden"
    found |= _of_attention(layer.self_attention, "attn" if across is None else "self_attn", "self")
    if across is not None:
        found |= _of_attention(across, "cross_attn", "cross")
    if layer.norm_place != "post":
        found["hook_attn_out"] = "self.out"
        found |= {} if across is None else {"hook_cross_attn_out": "cross.out"}
        if not layer.parallel:
            found["hook_resid_mid" if across is None else "hook_resid_mid2"] = "middle"
    return found


def _of_attention(look: Attention, theirs: str, ours: str) -> dict[str, str]:
    hooks = {"hook_v": "v", "hook_z": "heads", "hook_attn_scores": "scores", "hook_pattern": "weights"}
    if look.rotary is not None:
        hooks |= {"hook_rot_q": "q", "hook_rot_k": "k"}
    elif look.qk_norm is None:
        hooks |= {"hook_q": "q", "hook_k": "k"}
    return {f"{theirs}.{hook}": f"{ours}.{site}" for hook, site in hooks.items()}


def _embeds_only(stack: Stack) -> bool:
    """Whether what enters layer 0 is the embedding and nothing besides."""
    more = (stack.positions, stack.token_types, stack.norm_in, stack.embedding_dim, stack.audio)
    return not any(more)


def as_theirs(value: Tensor | Scores) -> Tensor:
    """A recorded value in the shape of TransformerLens: heads after tokens, [B, T, H, E]; weights written out."""
    if isinstance(value, Scores):
        return value.dense()
    return value.transpose(1, 2) if value.dim() == 4 else value


def addresses(config: TransformerConfig, wanted: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses that these globs stand for, of our addresses or of TransformerLens's names; each once.

    Raises ValueError for a glob that matches neither.
    """
    own, names, patterns = sites(config), aliases(config), list[str]()
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        ours = any(fnmatchcase(site, pattern) for site in own)
        theirs = [] if ours else [address for name, address in names.items() if fnmatchcase(name, pattern)]
        patterns += theirs or [pattern]
    return tuple(dict.fromkeys(address for matched in chosen(config, patterns).values() for address in matched))
