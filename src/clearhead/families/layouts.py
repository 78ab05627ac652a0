"""What the home library's tokenizer classes make of their own files: vocabulary, normaliser, special tokens, ends.

Each follows the class of its name in transformers 5; a `Settings` holds what the folder says otherwise.
"""

from pathlib import Path

import tokenizers
from tokenizers import Regex, normalizers

from clearhead.text.piece_model import PieceModel, read_piece_model
from clearhead.text.settings import Settings
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.vocabulary import (
    byte_fallback_pairs,
    byte_pairs,
    charsmap,
    finish,
    own_tokens,
    read_merges,
    read_vocabulary,
    read_word_pieces,
    unigrams,
    word_pieces,
)

PAIRS = ("vocab.json", "merges.txt")
SPIECE, BPE, MODEL = "spiece.model", "sentencepiece.bpe.model", "tokenizer.model"
END = {"unk": "<|endoftext|>", "bos": "<|endoftext|>", "eos": "<|endoftext|>"}
BRACKETS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
SMALL = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
FAIRSEQ = {"bos": "<s>", **SMALL}  # in the order of their ids, 0 to 3
ALL = {**FAIRSEQ, "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
QWEN = (  # the stretches that its merges do not cross; GPT-2's keep digits together and have no case in "'S"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def stated(settings: Settings, kind: str, default: str) -> str:
    token = settings.specials.get(kind)
    return token.content if token else default


def _ends(settings: Settings) -> tuple[list[str], list[str]]:
    """Before and after every text, for the classes that leave it to the folder; none, unless it says so."""
    return ["bos"] * settings.flag("add_bos_token"), ["eos"] * settings.flag("add_eos_token")


def _pairs(folder: Path, settings: Settings, split: str | None = None) -> tokenizers.Tokenizer:
    vocab = read_vocabulary(folder / PAIRS[0])
    return byte_pairs(vocab, read_merges(folder / PAIRS[1], vocab), settings.flag("add_prefix_space"), split)


def gpt2(folder: Path, settings: Settings) -> Tokenizer:
    return finish(_pairs(folder, settings), settings, END, *_ends(settings))


def roberta(folder: Path, settings: Settings) -> Tokenizer:
    return finish(_pairs(folder, settings), settings, ALL, ["cls"], ["sep"])


def qwen2(folder: Path, settings: Settings) -> Tokenizer:
    inner = _pairs(folder, settings, QWEN)
    inner.normalizer = normalizers.NFC()
    return finish(inner, settings, {"eos": "<|endoftext|>", "pad": "<|endoftext|>"}, *_ends(settings))


def whisper(folder: Path, settings: Settings) -> Tokenizer:
    """The task stands before the text: language and task as far as the folder names them, then no time stamps."""
    said = [settings.config.get(key) for key in ("language", "task")]
    times = [] if settings.flag("predict_timestamps") else ["<|notimestamps|>"]
    before = ["<|startoftranscript|>", *(f"<|{word}|>" for word in said if word), *times]
    return finish(_pairs(folder, settings), settings, END, before, ["eos"])


def bert(folder: Path, settings: Settings) -> Tokenizer:
    vocab, lower = read_word_pieces(folder / "vocab.txt"), settings.flag("do_lower_case", True)
    plain, chinese = settings.flag("strip_accents", lower), settings.flag("tokenize_chinese_chars", True)
    inner = word_pieces(vocab, stated(settings, "unk", "[UNK]"), lower, plain, chinese)
    return finish(inner, settings, BRACKETS, ["cls"], ["sep"])


def t5(folder: Path, settings: Settings) -> Tokenizer:
    """The sentinels come behind the model's pieces, the last one first."""
    model = read_piece_model(folder / SPIECE)
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(settings.count("extra_ids", 100)))]
    inner = unigrams([*model.pieces, *((one, 0.0) for one in sentinels)], model.unk, charsmap(model))
    inner.add_special_tokens(list(sentinels))
    return finish(inner, settings, SMALL, after=["eos"], extra=own_tokens(model))


def albert(folder: Path, settings: Settings) -> Tokenizer:
    model = read_piece_model(folder / SPIECE)
    quotes = [normalizers.Replace(pair, '"') for pair in ("``", "''")]
    plain = [] if settings.flag("keep_accents") else [normalizers.NFKD(), normalizers.StripAccents()]
    lower = [normalizers.Lowercase()] if settings.flag("do_lower_case", True) else []
    inner = unigrams(model.pieces, model.unk, [*quotes, *plain, *lower, *charsmap(model)])
    defaults = {**BRACKETS, "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
    return finish(inner, settings, defaults, ["cls"], ["sep"], own_tokens(model))


def pegasus(folder: Path, settings: Settings) -> Tokenizer:
    """Masks and placeholders stand between the model's first two pieces and the rest."""
    model = read_piece_model(folder / SPIECE)
    masks = ["<mask_1>", "<mask_2>"]
    places = [f"<unk_{i}>" for i in range(2, settings.count("offset", 103))]
    put = masks + places
    pieces = [*model.pieces[:2], *((one, 0.0 if one in masks else -100.0) for one in put), *model.pieces[2:]]
    normal = charsmap(model) or [normalizers.Replace("\n", " ")]
    inner = unigrams(pieces, model.unk + len(put), [*normal, one_blank()], words=False)
    inner.add_special_tokens(put)
    return finish(inner, settings, {**SMALL, "mask": "<mask_2>"}, after=["eos"], extra=own_tokens(model))


def llama(folder: Path, settings: Settings) -> Tokenizer:
    model = read_piece_model(folder / MODEL)
    prepend = "always" if settings.flag("legacy") else "first"
    inner = byte_fallback_pairs(model.vocab, None, prepend if settings.flag("add_prefix_space", True) else None)
    defaults = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}
    return finish(inner, settings, defaults, *_ends(settings), own_tokens(model))


def gemma(folder: Path, settings: Settings) -> Tokenizer:
    model = read_piece_model(folder / MODEL)
    inner = byte_fallback_pairs(model.vocab, stated(settings, "unk", "<unk>"), None)
    defaults = {"unk": "<unk>", "bos": "<bos>", "eos": "<eos>", "pad": "<pad>", "mask": "<mask>"}
    return finish(inner, settings, defaults, *_ends(settings), own_tokens(model))


def xlm_roberta(folder: Path, settings: Settings) -> Tokenizer:
    model = read_piece_model(folder / BPE)
    inner = unigrams(fairseq(model, settings, ["<mask>"]), 3, charsmap(model))
    return finish(inner, settings, ALL, ["bos"], ["eos"], own_tokens(model))


def fairseq(model: PieceModel, settings: Settings, last: list[str]) -> list[tuple[str, float]]:
    """Fairseq counts otherwise than SentencePiece: four special tokens for the model's three, and some at the end."""
    first = [(stated(settings, kind, token), 0.0) for kind, token in FAIRSEQ.items()]
    return [*first, *model.pieces[3:], *((token, 0.0) for token in last)]


def one_blank() -> normalizers.Normalizer:
    return normalizers.Replace(Regex(" {2,}"), " ")
