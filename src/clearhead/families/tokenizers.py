"""The tokenizer of a folder: tokenizer.json, or the older files of a class of the home library, by the class's name."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from clearhead.families import layouts, translators
from clearhead.families.layouts import BPE, MODEL, PAIRS, SPIECE
from clearhead.families.weights import inside
from clearhead.text.pair import Pair, saved
from clearhead.text.settings import Settings, json_object, read_settings
from clearhead.text.tokenizer import Tokenizer

LOG = logging.getLogger(__name__)
FILES = ("vocab.json", "vocab.txt", SPIECE, BPE, MODEL, "source.spm")
BESIDE = (
    *("tokenizer.json", "tokenizer_config.json", "target_tokenizer.json", "target_tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("merges.txt", "target.spm", "target_vocab.json"),
)


class Layout(NamedTuple):
    """The files that a tokenizer class reads, and what it makes of them."""

    files: tuple[str, ...]
    build: Callable[[Path, Settings], Tokenizer | Pair]


CLASSES = {
    "GPT2Tokenizer": Layout(PAIRS, layouts.gpt2),
    "RobertaTokenizer": Layout(PAIRS, layouts.roberta),
    "BartTokenizer": Layout(PAIRS, layouts.roberta),
    "Qwen2Tokenizer": Layout(PAIRS, layouts.qwen2),
    "WhisperTokenizer": Layout(PAIRS, layouts.whisper),
    "BertTokenizer": Layout(("vocab.txt",), layouts.bert),
    "DistilBertTokenizer": Layout(("vocab.txt",), layouts.bert),
    "T5Tokenizer": Layout((SPIECE,), layouts.t5),
    "AlbertTokenizer": Layout((SPIECE,), layouts.albert),
    "PegasusTokenizer": Layout((SPIECE,), layouts.pegasus),
    "LlamaTokenizer": Layout((MODEL,), layouts.llama),
    "GemmaTokenizer": Layout((MODEL,), layouts.gemma),
    "XLMRobertaTokenizer": Layout((BPE,), layouts.xlm_roberta),
    "MBartTokenizer": Layout((BPE,), translators.mbart),
    "MBart50Tokenizer": Layout((BPE,), translators.mbart50),
    "NllbTokenizer": Layout((BPE,), translators.nllb),
    "M2M100Tokenizer": Layout(("vocab.json", BPE), translators.m2m100),
    "MarianTokenizer": Layout(("vocab.json", "source.spm", "target.spm"), translators.marian),
}
MODELS = {  # the class of a model_type, for folders that name none
    **dict.fromkeys(("gpt2", "starcoder2"), "GPT2Tokenizer"),
    **dict.fromkeys(("roberta", "bart"), "RobertaTokenizer"),
    **dict.fromkeys(("qwen2", "qwen3"), "Qwen2Tokenizer"),
    **dict.fromkeys(("bert", "distilbert", "electra"), "BertTokenizer"),
    **dict.fromkeys(("llama", "mistral", "phi3"), "LlamaTokenizer"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text"), "GemmaTokenizer"),
    "whisper": "WhisperTokenizer",
    "t5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "albert": "AlbertTokenizer",
    "pegasus": "PegasusTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "mbart": "MBartTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
}


def load_tokenizer(folder: str | Path) -> Tokenizer | Pair | None:
    """The tokenizer of a model's folder, or None.

    tokenizer.json is taken as it is. Without it, the class that tokenizer_config.json names, or else the one that the
    model_type of config.json has in its home library, decides about the layout of the older files. If that class is
    not known, or its files are not there, but some others are, a warning says so.
    Raises ValueError, naming the file, for one that is damaged, and for a link that leads out of the folder.
    """
    folder = Path(folder)
    for name in (*FILES, *BESIDE):
        if (folder / name).exists():
            inside(folder / name, name, "")
    if (found := saved(folder)) is not None:
        return found
    settings = read_settings(folder)
    model = json_object(folder / "config.json")
    home = MODELS.get(str(model.get("model_type")))
    named = settings.config.get("tokenizer_class") or model.get("tokenizer_class") or home
    layout = CLASSES.get(str(named).removesuffix("Fast"))
    if layout is not None and all((folder / file).is_file() for file in layout.files):
        return layout.build(folder, settings)
    if there := [file for file in FILES if (folder / file).is_file()]:
        LOG.warning(
            "model.tokenizer is None: %s holds %s, which %s. If transformers reads it, AutoTokenizer.from_pretrained("
            "folder).save_pretrained(folder) writes the tokenizer.json that is read here",
            folder,
            ", ".join(there),
            f"tokenizer_class {named} does not read" if layout else f"no known class reads (it names {named})",
        )
    return None
