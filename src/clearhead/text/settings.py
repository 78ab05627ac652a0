"""What a folder says about its tokenizer beside the vocabulary: special and added tokens, options, chat templates."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tokenizers import AddedToken

SPECIALS = ("pad", "bos", "eos", "unk", "mask", "cls", "sep")
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


@dataclass(frozen=True)
class Settings:
    """`config` is tokenizer_config.json as it was; the rest is what it and the files beside it come to."""

    config: Mapping[str, Any] = field(default_factory=dict)
    specials: Mapping[str, AddedToken | None] = field(default_factory=dict)  # by kind; None: said to have none
    extra: tuple[AddedToken, ...] = ()  # further special tokens, which have no kind
    added: tuple[tuple[int, AddedToken], ...] = ()  # tokens with ids that the vocabulary may lack, by id
    templates: Mapping[str, str] = field(default_factory=dict)  # chat templates by name; the usual one is "default"

    def flag(self, name: str, usual: bool = False) -> bool:
        """A yes or no of tokenizer_config.json. Raises ValueError for anything else."""
        value = self.config.get(name)
        if not isinstance(value, bool | None):
            raise ValueError(f"tokenizer_config.json has {name}={value!r}; it is true or false")
        return usual if value is None else value

    def count(self, name: str, usual: int) -> int:
        """A number of tokens in tokenizer_config.json. Raises ValueError for anything else."""
        value = self.config.get(name, usual)
        if type(value) is not int or not 0 <= value <= 10_000:
            raise ValueError(f"tokenizer_config.json has {name}={value!r}; it is a number of tokens, up to 10000")
        return value


def read_settings(folder: Path, name: str = "tokenizer") -> Settings:
    """From `{name}_config.json`, special_tokens_map.json, added_tokens.json and chat_template.jinja, each if there.

    Where tokenizer_config.json lists its added tokens itself, it alone counts; else the older files stand above it.
    Raises ValueError, naming the file, for one that is damaged.
    """
    config = json_object(folder / f"{name}_config.json")
    older = {} if "added_tokens_decoder" in config else json_object(folder / "special_tokens_map.json")
    stated = {**config, **older}
    try:
        specials = {kind: _token(stated[f"{kind}_token"]) for kind in SPECIALS if f"{kind}_token" in stated}
        further = [stated.get(key) or () for key in ("additional_special_tokens", "extra_special_tokens")]
        extra = [_token(token) for tokens in further for token in _values(tokens)]
        special = {token.content for token in (*specials.values(), *extra) if token}
        if "added_tokens_decoder" in config:
            added = {int(i): _token(token) for i, token in config["added_tokens_decoder"].items()}
        else:
            found = json_object(folder / "added_tokens.json")
            added = {int(i): _token(text, text in special) for text, i in found.items()}
        known = {token.content: token for token in added.values() if token}
        specials = {kind: known.get(token.content, token) if token else None for kind, token in specials.items()}
        templates = _templates(folder, config.get("chat_template"))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{folder / f'{name}_config.json'} or a file beside it is no list of tokens: {error}"
        ) from error
    return Settings(
        config,
        specials,
        tuple(token for token in extra if token),
        tuple(sorted((i, token) for i, token in added.items() if token)),
        templates,
    )


def json_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file, {} where there is none. Raises ValueError, naming the file, for anything else."""
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise ValueError(f"{file} is not JSON ({error}); the folder may be damaged or half-written") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__}, not an object")
    return cast(dict[str, Any], content)


def _token(value: Any, special: bool = True) -> AddedToken | None:
    """Hugging Face writes a token as a string, or as an object with flags, or as null."""
    if value is None:
        return None
    if isinstance(value, str):
        return AddedToken(value, special=special, normalized=not special)
    flags = {flag: bool(value[flag]) for flag in FLAGS if flag in value}
    return AddedToken(_text(value["content"]), **{"special": special, **flags})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a token is {value!r}, not text")
    return value


def _values(tokens: Any) -> list[Any]:
    return list(tokens.values() if isinstance(tokens, dict) else tokens)


def _templates(folder: Path, stated: Any) -> dict[str, str]:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return {"default": file.read_text(encoding="utf-8")}
    if stated is None:
        return {}
    if isinstance(stated, list):
        return {_text(one["name"]): _text(one["template"]) for one in cast(list[dict[str, Any]], stated)}
    return {"default": _text(stated)}
