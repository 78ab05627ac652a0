"""Two tokenizers for a model that reads one language and writes another, and what was saved in a folder."""

from collections.abc import Sequence
from pathlib import Path

import torch

from clearhead.text.batch import Side
from clearhead.text.tokenizer import Ids, Tokenizer

TARGET = "target_tokenizer"


class Pair:
    """A source and a target tokenizer behind one handle.

    Text goes in at the source unless `target=True`; ids come out of the model, so they are the target's unless
    `target=False`. `bos` and `eos` are the target's, `pad` is both sides'.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        """Raises ValueError where the two differ in their pad id: a model has one."""
        if source.pad != target.pad:
            raise ValueError(f"source.pad={source.pad} and target.pad={target.pad}: a model has one pad id for both")
        self.source, self.target = source, target
        self.pad, self.bos, self.eos = target.pad, target.bos, target.eos

    def __call__(
        self,
        texts: str | Sequence[str],
        target: bool = False,
        padding_side: Side = "right",
        add_special_tokens: bool = True,
    ) -> dict[str, torch.Tensor]:
        """As `Tokenizer`: `input_ids` and `attention_mask`, int64 [B, T]."""
        return self._side(target)(texts, padding_side=padding_side, add_special_tokens=add_special_tokens)

    def encode(self, text: str, target: bool = False, add_special_tokens: bool = True) -> list[int]:
        return self._side(target).encode(text, add_special_tokens=add_special_tokens)

    def encode_batch(
        self, texts: Sequence[str], target: bool = False, add_special_tokens: bool = True
    ) -> list[list[int]]:
        return self._side(target).encode_batch(texts, add_special_tokens=add_special_tokens)

    def offsets(self, text: str, target: bool = False) -> list[tuple[int, int] | None]:
        return self._side(target).offsets(text)

    def decode(self, ids: Ids, skip_special_tokens: bool = True, target: bool = True) -> str:
        return self._side(target).decode(ids, skip_special_tokens)

    def decode_batch(
        self, rows: Sequence[Ids] | torch.Tensor, skip_special_tokens: bool = True, target: bool = True
    ) -> list[str]:
        return self._side(target).decode_batch(rows, skip_special_tokens)

    def pieces(self, ids: Ids, target: bool = True) -> list[str]:
        return self._side(target).pieces(ids)

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json` (source) and `target_tokenizer.json`, each with its `_config.json`.

        A pair of `sentencepiece` models writes the files that it came in, as `Tokenizer.save` does.
        """
        self.source.save(folder)
        self.target.save(folder, TARGET)

    def _side(self, target: bool) -> Tokenizer:
        return self.target if target else self.source


def saved(folder: Path) -> Tokenizer | Pair | None:
    """The tokenizer or pair that was saved in a folder; None where there is no `tokenizer.json`.

    Raises ValueError for a file that the library cannot read.
    """
    if not (folder / "tokenizer.json").exists():
        return None
    source = Tokenizer.load(folder)
    return Pair(source, Tokenizer.load(folder, TARGET)) if (folder / f"{TARGET}.json").exists() else source
