"""What a run starts from: a model that is there, or a new one with a tokenizer, both by the size of the data."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from clearhead.config import Head, Stack, TextClassifier, TransformerConfig
from clearhead.families.hub import local
from clearhead.families.load import MODEL_TYPE, load
from clearhead.families.presets import small_encoder, small_lm, small_translator
from clearhead.families.store import read_json
from clearhead.families.tokenizers import load_tokenizer
from clearhead.model.attention import Attention
from clearhead.model.transformer import Transformer
from clearhead.text.build import bpe_tokenizer, bytes_tokenizer, char_tokenizer, unigram_tokenizer, word_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.files import Part, Texts, digest_of
from clearhead.train.data.spans import add_sentinels, sentinels, spans_in
from clearhead.train.labels import for_labels
from clearhead.train.lora import adapt
from clearhead.train.recipe import Recipe, Vocabulary
from clearhead.train.spread import ALONE, Spread

LARGE = 2_000_000  # characters, from which on a text is worth pieces of words and a wider model
MANY = 5_000  # sentence pairs, likewise
LEARNED_FROM = 200_000_000  # characters that a tokenizer is learned from, at most
KINDS = {
    "lm": "a decoder alone",
    "translate": "an encoder and a decoder",
    "mlm": "an encoder alone",
    "span": "an encoder and a decoder",
    "classify": "a classifier of texts",
}


def is_large(recipe: Recipe, texts: Texts) -> bool:
    """Whether there is enough for a wider model and larger batches."""
    return texts.rows >= MANY if recipe.task == "translate" else texts.characters >= LARGE


def block_of(recipe: Recipe, texts: Texts) -> int:
    """Tokens of a row of text, where the model has positions for so many."""
    return recipe.batch.block or (256 if is_large(recipe, texts) else 64)


def begin(recipe: Recipe, texts: Texts, here: Spread) -> Transformer:
    """The model as it is before the first step, the same for the same seed and in every process.

    Raises ValueError for a model that is not of the task's kind, or has no tokenizer.
    """
    torch.manual_seed(recipe.seed)
    if recipe.model.start is None:
        model = new(recipe, texts, here).to(here.device)
    else:
        model = load(recipe.model.start, dtype=torch.float32, device=here.device)
    if recipe.task == "classify":
        model = for_labels(model, texts)
    check_kind(model, recipe.task)
    if recipe.model.start is not None and recipe.model.lora.rank:
        adapt(model, recipe.model.lora, recipe.model.start)
    return model


def base_of(recipe: Recipe) -> dict[str, str]:
    """What an adapted model's weights must still be when its run is gone on with, since no checkpoint has them."""
    if recipe.model.start is None or not recipe.model.lora.rank:
        return {}
    place = local(recipe.model.start)
    inside = sorted(file for file in place.glob("*") if file.suffix in (".safetensors", ".gguf"))
    return {"weights of model.start": f"sha256 {digest_of([place] if place.is_file() else inside)}"}


def task_for(model: Transformer) -> Literal["lm", "translate", "mlm", "classify"]:
    """What a model of its kind is trained to do."""
    if isinstance(model.config.head, TextClassifier):
        return "classify"
    if model.encoder is None:
        return "lm"
    return "mlm" if model.decoder is None else "translate"


def check_kind(model: Transformer, task: str) -> Tokenizer | Pair:
    """The model's tokenizer. Raises ValueError for a model that cannot be trained so, naming what it is."""
    config, is_for = model.config, task_for(model)
    if KINDS[is_for] != KINDS[task]:
        raise ValueError(f"the model is {KINDS[is_for]}, but {task} needs {KINDS[task]}; use train {is_for}")
    if task != "classify" and not isinstance(config.head, Head):
        raise ValueError(
            f"the model's head is {type(config.head).__name__}; training on text needs one that writes tokens"
        )
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ValueError("the model has no tokenizer; save one beside its weights first")
    if task == "mlm" and (isinstance(tokenizer, Pair) or tokenizer.mask is None):
        raise ValueError("the model's tokenizer has no mask token, which mlm hides words behind; use another model")
    if task == "span" and (isinstance(tokenizer, Pair) or tokenizer.eos is None or not sentinels(tokenizer)):
        raise ValueError(
            "the model's tokenizer has no eos, or no <extra_id_0> and so on, which span puts in the place of a span; "
            "use another model"
        )
    if task in ("translate", "span") and (config.pad is None or config.first is None):
        raise ValueError(f"the model has no pad or start token; {task} needs both, set them in its config.json")
    return tokenizer


def drop(model: Transformer, share: float) -> None:
    """Another dropout than the config's, which stays as it is."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        elif isinstance(module, Attention):
            module.dropout = share


def new(recipe: Recipe, texts: Texts, here: Spread = ALONE) -> Transformer:
    """A model for these texts, drawn from torch's global generator, with a tokenizer that the first process makes."""
    tokenizer = here.once(lambda: tokenizer_for(recipe, texts))
    config = config_for(recipe, texts, tokenizer)
    if recipe.model.dropout is not None:
        config = replace(config, dropout=recipe.model.dropout)
    model = Transformer(config)
    model.tokenizer = tokenizer
    return model


def tokenizer_for(recipe: Recipe, texts: Texts) -> Tokenizer | Pair:
    """Another model's, or learned from the part that is trained on; characters from all, so that none is unknown."""
    said = recipe.tokenizer
    if said.start is not None:
        found = load_tokenizer(local(said.start))
        if found is None:
            raise ValueError(f"{said.start} has no tokenizer; leave out recipe.tokenizer.start, and one is learned")
        return found
    if recipe.task == "span":
        made = _learned(said, texts, (0,), eos=True)
        return add_sentinels(made, spans_in(block_of(recipe, texts))[1] + 1)
    if recipe.task != "translate":
        char = said.kind == "auto" and recipe.task == "lm" and not is_large(recipe, texts)
        kind = "char" if char else said.kind
        return _learned(replace(said, kind=kind), texts, (0,), mask=recipe.task == "mlm")
    if said.shared:
        return _learned(said, texts, (0, 1), eos=True)
    return Pair(_learned(said, texts, (0,), eos=True), _learned(said, texts, (1,), bos=True, eos=True))


def _learned(said: Vocabulary, texts: Texts, sides: tuple[int, ...], **specials: bool) -> Tokenizer:
    if said.kind == "byte":
        return bytes_tokenizer(**specials)
    if said.kind == "char":
        rows = chain(texts.train, texts.validation)
        return char_tokenizer((row.texts[side] for row in rows for side in sides), **specials)
    read = list(_characters(texts.train, sides))
    if said.kind == "word":
        return word_tokenizer(read, r"\s+", unk=True, **specials)
    build: Callable[..., Tokenizer] = unigram_tokenizer if said.kind == "unigram" else bpe_tokenizer
    size = said.size or min(max(512, sum(map(len, read)) // 100), 8000)
    return build((line for text in read for line in text.split("\n")), size, **specials)


def _characters(part: Part, sides: tuple[int, ...]) -> Iterator[str]:
    """The texts of a part, as far as a tokenizer is learned from them."""
    size = 0
    for row in part:
        for side in sides:
            yield row.texts[side]
            size += len(row.texts[side])
        if size >= LEARNED_FROM:
            return


def config_for(recipe: Recipe, texts: Texts, tokenizer: Tokenizer | Pair) -> TransformerConfig:
    """The recipe's config, or one by the size of the data; its vocabulary and special ids are the tokenizer's."""
    sizes = (tokenizer.source, tokenizer.target) if isinstance(tokenizer, Pair) else (tokenizer, tokenizer)
    read, written = map(len, sizes)
    asked = recipe.model
    config = (
        _of_file(Path(asked.config))
        if asked.config is not None
        else _of_size(recipe, is_large(recipe, texts), read, written)
    )
    stacks: dict[str, Any] = {}
    for (name, stack), vocab in zip(config.stacks.items(), (read, written), strict=False):
        stacks[name] = _with(stack, vocab, asked.layers)
    specials = {"pad": tokenizer.pad, "bos": tokenizer.bos, "eos": tokenizer.eos}
    return replace(config, **stacks, **specials)


def _of_file(path: Path) -> TransformerConfig:
    plain = read_json(path)
    if plain.get("model_type") != MODEL_TYPE:
        raise ValueError(
            f"{path} has model_type {plain.get('model_type')!r}; a new model needs one that clearhead saved"
        )
    return TransformerConfig.from_dict({key: value for key, value in plain.items() if key != "model_type"})


def _of_size(recipe: Recipe, large: bool, read: int, written: int) -> TransformerConfig:
    wide, two = 384 if recipe.task == "lm" else 256, recipe.task in ("translate", "span")
    dim, step = recipe.model.dim or (wide if large else 128), 32 if two else 64
    if dim % step:
        raise ValueError(f"recipe.model.dim is {dim}; heads are {step} wide, so it must be a multiple of {step}")
    if recipe.task == "lm":
        return small_lm(read, dim)
    if recipe.task in ("mlm", "classify"):
        return small_encoder(read, dim)
    config = small_translator(read, written, dim)
    if recipe.task == "translate" and not recipe.tokenizer.shared:
        return config
    return replace(config, shared_embeddings=True, head=Head(tied=True))


def _with(stack: Stack, vocab: int, layers: int | None) -> Stack:
    return replace(stack, vocab=vocab, layers=stack.layers if layers is None else (stack.layers[0],) * layers)
