"""The tokenizer that is inside a GGUF file, built when it is first used."""

from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from clearhead.families.gguf_file import Array, GgufFile
from clearhead.families.layouts import QWEN
from clearhead.text.piece_model import PieceModel
from clearhead.text.settings import Settings
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.vocabulary import BLANK, byte_fallback_pairs, byte_pairs, finish, own_tokens

IDS = {"pad": "padding", "bos": "bos", "eos": "eos", "unk": "unknown", "mask": "mask"}
SPLITS = {  # tokenizer.ggml.pre: the stretches that no merge crosses
    "gpt-2": None,
    "smollm": None,
    "qwen2": QWEN,
    "llama-bpe": QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|"),
}


class Later(Tokenizer):
    """A tokenizer whose vocabulary is read from the file when it is first used; its special ids are known before.

    A vocabulary that makes no sense is a ValueError then.
    """

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        ids = _ids(file)
        self.pad, self.bos, self.eos, self.unk, self.mask = (ids.get(kind) for kind in IDS)

    def __getattr__(self, name: str) -> Any:
        """What is not there yet, which until the first use is everything else."""
        if name.startswith("__") or "_file" not in vars(self):
            raise AttributeError(name)
        made = built(self._file)
        del self._file
        vars(self).update(vars(made))
        return getattr(self, name)


def tokenizer_of(file: GgufFile) -> Tokenizer | None:
    """The file's tokenizer, not yet built; None where there is none."""
    return Later(file) if file.settings.get("tokenizer.ggml.model", "none") != "none" else None


def built(file: GgufFile) -> Tokenizer:
    """Raises ValueError for a kind of tokenizer that is not known, and for lists that do not fit together."""
    kind = file.settings["tokenizer.ggml.model"]
    tokens, kinds = file.array("tokenizer.ggml.tokens"), file.array("tokenizer.ggml.token_type")
    vocab = {token: i for i, token in enumerate(tokens)}
    if not len(kinds) == len(tokens) == len(vocab):
        raise ValueError(f"{file.path}: of {len(tokens)} tokens {len(vocab)} differ, and {len(kinds)} have a kind")
    make = {"gpt2": _bytes, "llama": _pieces}.get(kind)
    if make is None:
        raise ValueError(f"{file.path} has a tokenizer of the kind {kind!r}; known are gpt2 and llama")
    ids, template = _ids(file), file.settings.get("tokenizer.chat_template")
    named = PieceModel(tuple((token, 0.0) for token in tokens), tuple(kinds), "bpe", b"")
    before, after = ([kind] * _adds(file, kind) for kind in ("bos", "eos"))
    try:
        return finish(
            make(file, vocab),
            Settings(templates={"default": template} if template else {}),
            {kind: tokens[i] for kind, i in ids.items()},
            before,
            after,
            own_tokens(named),
        )
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{file.path}: the tokenizer cannot be built: {error}") from error


def _bytes(file: GgufFile, vocab: dict[str, int]) -> tokenizers.Tokenizer:
    """Byte-level pairs; each kind cuts a text in its own way first."""
    kind = file.settings.get("tokenizer.ggml.pre", "gpt-2")
    if kind not in SPLITS:
        raise ValueError(f"it cuts texts in the way {kind!r}; known are {', '.join(SPLITS)}")
    merges = [line.partition(" ") for line in file.array("tokenizer.ggml.merges")]
    inner = byte_pairs(vocab, [(left, right) for left, _, right in merges], split=SPLITS[kind])
    if kind == "smollm":
        cuts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        inner.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    elif kind == "qwen2":
        inner.normalizer = normalizers.NFC()
    elif kind == "llama-bpe" and isinstance(inner.model, models.BPE):
        inner.model.ignore_merges = True  # a stretch that is a token is taken whole
    return inner


def _pieces(file: GgufFile, vocab: dict[str, int]) -> tokenizers.Tokenizer:
    """SentencePiece's pairs. A blank goes in front of a text unless the file says no, and after each special token."""
    unknown = next((token for token, i in vocab.items() if i == _ids(file).get("unk", 0)), None)
    if not file.settings.get("tokenizer.ggml.add_space_prefix", True):
        return byte_fallback_pairs(vocab, unknown, None)
    inner = byte_fallback_pairs(vocab, unknown, "always")
    inner.pre_tokenizer = None  # it would leave out the blank before a blank, which SentencePiece writes
    inner.normalizer = normalizers.Sequence([normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])
    return inner


def _adds(file: GgufFile, kind: str) -> bool:
    """Whether every text gets this token; some kinds of tokenizer imply it where the file does not say."""
    get = file.settings.get
    implied = get("tokenizer.ggml.model") == "llama" or get("tokenizer.ggml.pre") == "llama-bpe"
    return bool(get(f"tokenizer.ggml.add_{kind}_token", implied and kind == "bos")) and kind in _ids(file)


def _ids(file: GgufFile) -> dict[str, int]:
    """The special tokens that the file names, as far as its vocabulary goes."""
    found = {kind: file.settings.get(f"tokenizer.ggml.{name}_token_id") for kind, name in IDS.items()}
    tokens = file.settings.get("tokenizer.ggml.tokens")
    count = tokens.length if isinstance(tokens, Array) else 0
    return {kind: i for kind, i in found.items() if isinstance(i, int) and 0 <= i < count}
