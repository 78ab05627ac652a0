"""Tiny vocabularies of every kind, trained here, and the folders that home libraries' tokenizer classes read."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

TEXT = [
    "the quick brown fox jumps over the lazy dog. How are you today?",
    "Ein Mann isst ein Stück Brot. Die größte Straße, naïve café résumé.",
    "人工知能は面白い。 地球は丸い。 сердце и любовь. Привет мир!",
    "I can't believe it's 2024; they're 3.14 times bigger (really?) \"quoted\" 'single'",
    "hello hello world wide web 🙂 emoji 🙂 flags 🇩🇪 x<y && a>=b",
    "numbers one two three twenty-five 123 4567 89",
    "the cat sat on the mat; the mat sat on the cat. the the the",
] * 3
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
END = "<|endoftext|>"
TASKS = (END, *(f"<|{name}|>" for name in ["startoftranscript", "en", "de", "translate", "transcribe", "notimestamps"]))


@cache
def pieces(kind: str, size: int, **options: Any) -> bytes:
    """A SentencePiece model. options: those of its trainer, lists as strings with commas."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=out,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return out.getvalue()


def unigram() -> bytes:
    return pieces("unigram", 200)


def pad_first() -> bytes:
    return pieces("unigram", 200, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def fewer() -> bytes:
    return pieces("unigram", 110, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def without_map() -> bytes:
    return pieces("unigram", 200, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name="identity")


def in_brackets() -> bytes:
    symbols = {"control_symbols": "[CLS],[SEP],[MASK]", "user_defined_symbols": '(,),",-'}
    return pieces("unigram", 200, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, **symbols)


def byte_fallback(**options: Any) -> bytes:
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    return pieces("bpe", 480, byte_fallback=True, **plain, **options)


def named() -> bytes:
    ids = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3}
    names = {"pad_piece": "<pad>", "eos_piece": "<eos>", "bos_piece": "<bos>"}
    symbols = {"control_symbols": "<mask>", "user_defined_symbols": "<start_of_turn>"}
    return byte_fallback(add_dummy_prefix=False, **ids, **names, **symbols)


def names_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


@cache
def byte_pairs(*specials: str) -> tuple[dict[str, int], str]:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False
        ),
    )
    model = json.loads(inner.to_str())["model"]
    return model["vocab"], "\n".join(["#version: 0.2", *(" ".join(pair) for pair in model["merges"]), ""])


@cache
def word_pieces() -> str:
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=specials, show_progress=False)
    inner.train_from_iterator([line.lower() for line in TEXT], trainer)
    vocab = inner.get_vocab()
    return "".join(f"{token}\n" for token in sorted(vocab, key=vocab.__getitem__))


def two_sided() -> dict[str, Any]:
    """The files of a translator with a SentencePiece model for each language and one vocabulary."""
    both = sorted({*names_of(unigram())[3:], *names_of(fewer())[3:]})
    vocab = {token: i for i, token in enumerate(["</s>", "<unk>", *both, ">>deu<<", "<pad>"])}
    return {"source.spm": unigram(), "target.spm": fewer(), "vocab.json": vocab}


def apart() -> dict[str, Any]:
    """The same with a vocabulary for each."""

    def vocab(model: bytes) -> dict[str, int]:
        return {token: i for i, token in enumerate(["</s>", "<unk>", "<pad>", *names_of(model)[3:]])}

    return {**two_sided(), "vocab.json": vocab(unigram()), "target_vocab.json": vocab(fewer())}


def many_languages() -> dict[str, Any]:
    vocab = {token: i for i, token in enumerate([*FAIRSEQ, *names_of(unigram())[3:]])}
    return {"sentencepiece.bpe.model": unigram(), "vocab.json": vocab}


def gpt2_files() -> dict[str, Any]:
    vocab, merges = byte_pairs()
    return {"vocab.json": {**vocab, END: len(vocab)}, "merges.txt": merges}


def roberta_files() -> dict[str, Any]:
    vocab, merges = byte_pairs(*FAIRSEQ)
    return {"vocab.json": {**vocab, "<mask>": len(vocab)}, "merges.txt": merges}


def added(*tokens: str) -> dict[str, Any]:
    """An added_tokens_decoder behind the byte pairs."""
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    start = len(byte_pairs()[0])
    return {str(start + i): {"content": token, **flags} for i, token in enumerate(tokens)}


def whisper_files() -> dict[str, Any]:
    vocab, merges = byte_pairs()
    return {
        "vocab.json": vocab,
        "merges.txt": merges,
        "added_tokens.json": {token: len(vocab) + i for i, token in enumerate(TASKS)},
    }


def write(folder: Path, files: dict[str, Any], model_type: str, **config: Any) -> Path:
    """The folder of a model without weights: `files` by name, bytes, text or JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": {"model_type": model_type}, **files}.items():
        whole = content if isinstance(content, bytes | str) else json.dumps(content)
        (folder / name).write_bytes(whole if isinstance(whole, bytes) else whole.encode())
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
