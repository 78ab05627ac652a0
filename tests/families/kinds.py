"""Folders of every kind of tokenizer, the home library's reading of each and ours, and texts to compare them on."""

import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import families.vocabularies as make
from clearhead.families.languages import M2M100
from clearhead.families.tokenizers import load_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer

HOME = tempfile.TemporaryDirectory(prefix="tokenizers-")
TEXTS = [
    *("Hello world", "", "a", " ", "\n", "\t\ttabs\t", " the  cat 🙂\n x", "  leading and trailing  "),
    *("naïve café Straße", "人工知能は面白い。地球", "ﬁne ＡＢ①½", "e\u0301 E\u0301", "Привет, мир! сердце"),
    *("🙂🇩🇪👩‍👩‍👧", "``quoted'' \"x\" (a-b)", "can't WON'T they're I'M", "1234567 3.14 ,;:!?", "\r\n\r\nx\r"),
    *("a\u00a0b\u200bc\u2028d\ufeffe", "\u0000\u0001x\u007f", "don 't do . that , ok ? n't", "the\n\nthe"),
    *("the </s> cat", "the</s>cat<s> <unk>", "[CLS] the [MASK] cat[SEP]", "<mask> the <mask>cat", "<0x0A> <0x41>"),
    *("<|endoftext|>the<|endoftext|>", "<extra_id_0> x <extra_id_9>", "<start_of_turn>user\nhi", "<unk_2> x"),
    *(">>deu<< hello >>x<<", ">>deu hello", ">>a b<<c<<"),
]
SPECIALS = ["</s>", "<s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[MASK]", "<|endoftext|>", "<|en|>", "<extra_id_3>"]
FRAGMENTS = st.one_of(
    st.sampled_from([*TEXTS, *SPECIALS, *" \n\t.,'()", "  ", "the", "The", "hello", "Straße", "▁"]),
    st.text(max_size=6),
    st.text("abcdeth THE", max_size=12),
)
ANY_TEXT = st.lists(FRAGMENTS, max_size=6).map("".join)

KINDS: dict[str, tuple[Callable[[], dict[str, Any]], str, dict[str, Any]]] = {
    "gpt2": (make.gpt2_files, "gpt2", {}),
    "gpt2 with ends": (
        make.gpt2_files,
        "gpt2",
        {"add_prefix_space": True, "add_bos_token": True, "pad_token": "<pad>", "clean_up_tokenization_spaces": True},
    ),
    "roberta": (
        make.roberta_files,
        "roberta",
        {"mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True}},
    ),
    "bart": (make.roberta_files, "bart", {"tokenizer_class": "BartTokenizer", "add_prefix_space": True}),
    "qwen2": (
        lambda: dict(zip(("vocab.json", "merges.txt"), make.byte_pairs(), strict=True)),
        "qwen2",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "bos_token": None,
            "unk_token": None,
            "pad_token": make.END,
            "added_tokens_decoder": make.added(make.END, "<|im_start|>"),
            "additional_special_tokens": ["<|im_start|>"],
        },
    ),
    "whisper": (make.whisper_files, "whisper", {"additional_special_tokens": list(make.TASKS)}),
    "bert": (lambda: {"vocab.txt": make.word_pieces()}, "bert", {}),
    "bert cased": (
        lambda: {"vocab.txt": make.word_pieces()},
        "distilbert",
        {"do_lower_case": False, "tokenize_chinese_chars": False, "clean_up_tokenization_spaces": True},
    ),
    "distilbert": (
        lambda: {"vocab.txt": make.word_pieces()},
        "distilbert",
        {"tokenizer_class": "DistilBertTokenizer", "strip_accents": False, "cls_token": "[CLS]"},
    ),
    "t5": (lambda: {"spiece.model": make.pad_first()}, "t5", {}),
    "t5 with ten sentinels": (
        lambda: {"spiece.model": make.pad_first()},
        "t5",
        {"tokenizer_class": "T5TokenizerFast", "extra_ids": 10, "clean_up_tokenization_spaces": True},
    ),
    "albert": (lambda: {"spiece.model": make.in_brackets()}, "albert", {}),
    "albert cased": (
        lambda: {"spiece.model": make.in_brackets()},
        "albert",
        {"do_lower_case": False, "keep_accents": True},
    ),
    "pegasus": (lambda: {"spiece.model": make.pad_first()}, "pegasus", {}),
    "pegasus without a map": (lambda: {"spiece.model": make.without_map()}, "pegasus", {"offset": 9}),
    "llama": (
        lambda: {"tokenizer.model": make.byte_fallback()},
        "llama",
        {"tokenizer_class": "LlamaTokenizer"},
    ),
    "llama legacy": (
        lambda: {"tokenizer.model": make.byte_fallback()},
        "llama",
        {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True, "add_eos_token": True},
    ),
    "llama without blank": (
        lambda: {"tokenizer.model": make.byte_fallback()},
        "llama",
        {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False},
    ),
    "gemma": (lambda: {"tokenizer.model": make.named()}, "gemma", {"add_bos_token": True}),
    "xlm-roberta": (lambda: {"sentencepiece.bpe.model": make.unigram()}, "xlm-roberta", {}),
    "mbart50": (
        lambda: {"sentencepiece.bpe.model": make.unigram()},
        "mbart",
        {"tokenizer_class": "MBart50Tokenizer", "src_lang": "de_DE", "tgt_lang": "fr_XX"},
    ),
    "m2m100": (
        make.many_languages,
        "m2m_100",
        {
            "tokenizer_class": "M2M100Tokenizer",
            "src_lang": "fr",
            "tgt_lang": "de",
            "additional_special_tokens": [f"__{code}__" for code in M2M100],
        },
    ),
    "marian": (make.two_sided, "marian", {"source_lang": "en", "target_lang": "de"}),
    "marian apart": (make.apart, "marian", {"separate_vocabs": True, "clean_up_tokenization_spaces": True}),
}


def folder_of(kind: str) -> Path:
    """The files of a kind, in a folder that goes with the process."""
    files, model_type, config = KINDS[kind]
    return make.write(Path(HOME.name) / kind.replace(" ", "-"), files(), model_type, **config)


@cache
def both(kind: str) -> tuple[Any, Any]:
    """The home library's tokenizer, and ours."""
    from transformers import AutoTokenizer

    folder = folder_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return AutoTokenizer.from_pretrained(folder), load_tokenizer(folder)


def same(theirs: Any, ours: Tokenizer | Pair, text: str, target: bool = False) -> None:
    """Ids and decoded text are equal. A text without a token is an error with us, as no model could take it.

    With a vocabulary for each language, the home library cannot decode the source's ids.
    """
    ids = theirs(text_target=text)["input_ids"] if target else theirs(text)["input_ids"]
    if not ids:
        with pytest.raises(ValueError, match="gives no token"):
            ours.encode(text, target=target)
        return
    assert ours.encode(text, target=target) == ids
    if getattr(theirs, "separate_vocabs", False) and not target:
        return
    side = {"use_source_tokenizer": not target} if "Marian" in type(theirs).__name__ else {}
    for skip in (True, False):
        assert ours.decode(ids, skip, target=target) == theirs.decode(ids, skip_special_tokens=skip, **side)
