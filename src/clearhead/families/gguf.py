"""A model out of one GGUF file: its settings and tensors under the names of the home library's files."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.families.gguf_file import GgufFile
from clearhead.families.gguf_settings import FREQUENCIES, content_of
from clearhead.families.gguf_tokenizer import tokenizer_of
from clearhead.text.tokenizer import Tokenizer

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
PARTS = {
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.o_proj",
    **{f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"},
    **{f"attn_{part}_norm": f"self_attn.{part}_norm" for part in "qk"},
    "ffn_norm": "post_attention_layernorm",
    **{f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}
SANDWICH = {  # where norms stand on both sides of a branch
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


class GgufWeights:
    """As `Weights`: `names` of all tensors, and `read(name)`, by the home library's names and in its layout."""

    def __init__(self, file: GgufFile, dtype: torch.dtype) -> None:
        """dtype: of what is read."""
        self._file, self._dtype = file, dtype
        self._kind: str = file.settings["general.architecture"]
        self._heads = {
            part: file.settings.get(
                f"{self._kind}.attention.{key}", file.settings[f"{self._kind}.attention.head_count"]
            )
            for part, key in (("q", "head_count"), ("k", "head_count_kv"))
        }
        sandwich = any(".post_ffw_norm." in name for name in file.tensors)
        parts = PARTS | SANDWICH if sandwich else PARTS
        stored = [name for name in file.tensors if name != FREQUENCIES]
        self._stored = {_theirs(name, parts): name for name in stored}
        if len(self._stored) < len(stored):
            raise ValueError(f"{file.path} has two names for one tensor; {len(stored)} give {len(self._stored)}")

    @property
    def names(self) -> frozenset[str]:
        """Of all tensors."""
        return frozenset(self._stored)

    def read(self, name: str) -> Tensor:
        """One tensor, unpacked."""
        stored = self._stored[name]
        if self._kind.startswith("gemma") and stored.endswith("norm.weight"):  # stored as the gain
            return (self._file.read(stored) - 1).to(self._dtype)
        tensor = self._file.read(stored, self._dtype)
        turned = re.search(r"\.attn_([qk])\.", stored)
        if self._kind != "llama" or turned is None:
            return tensor
        # Stored so that the two numbers that turn together stand side by side; at home they are half a head apart.
        heads = self._heads[turned[1]]
        if heads < 1 or len(tensor) % (2 * heads):
            raise ValueError(f"{stored} has {len(tensor)} rows, which {heads} heads of an even width cannot share")
        pairs = tensor.unflatten(0, (heads, -1, 2))
        return pairs.transpose(1, 2).reshape(tensor.shape)


def _theirs(name: str, parts: dict[str, str]) -> str:
    """The home library's name; one that is not known stays as it is, and will not be expected."""
    stem, _, leaf = name.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if layer is not None and layer[2] in parts:
        return f"model.layers.{layer[1]}.{parts[layer[2]]}.{leaf}"
    return f"{NAMES[stem]}.{leaf}" if stem in NAMES else name


def gguf_in(path: Path) -> Path | None:
    """The GGUF file that this is, or that a folder without config.json holds; None where there is none.

    Raises ValueError for a folder that holds several.
    """
    if path.suffix == ".gguf" and not path.is_dir():
        return path
    found = sorted(path.glob("*.gguf")) if path.is_dir() and not (path / "config.json").exists() else []
    if len(found) > 1:
        raise ValueError(f"{path} holds {len(found)} GGUF files; name one of them, such as {found[0]}")
    return found[0] if found else None


def open_gguf(path: Path, dtype: torch.dtype) -> tuple[dict[str, Any], GgufWeights, Tokenizer | None]:
    """What config.json would say, the tensors as `dtype`, and the tokenizer, which is built when it is first used.

    Only the file's header is read. Raises ValueError, naming the file, for one that is damaged or not known.
    """
    file = GgufFile(path)
    return content_of(file), GgufWeights(file, dtype), tokenizer_of(file)
