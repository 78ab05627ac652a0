"""What stands beside a vocabulary: tokens as strings, objects or null, in old files and new, and damage."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from clearhead.text.settings import Settings, read_settings


def write(folder: Path, name: str, content: Any) -> Path:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_nothing_beside_it(tmp_path: Path) -> None:
    found = read_settings(tmp_path)
    assert (found.config, found.specials, found.extra, found.added, found.templates) == ({}, {}, (), (), {})


def test_a_token_is_a_string_an_object_or_null(tmp_path: Path) -> None:
    mask = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False}
    config = {"bos_token": "<s>", "mask_token": {"__type": "AddedToken", **mask}, "pad_token": None}
    found = read_settings(write(tmp_path, "tokenizer_config.json", config))
    assert found.specials == {
        "bos": AddedToken("<s>", special=True, normalized=False),
        "mask": AddedToken("<mask>", lstrip=True, special=True, normalized=True),
        "pad": None,
    }


def test_the_older_files_stand_above_the_config_unless_it_lists_its_tokens(tmp_path: Path) -> None:
    write(tmp_path, "special_tokens_map.json", {"eos_token": "<map>", "additional_special_tokens": ["<a>"]})
    write(tmp_path, "added_tokens.json", {"<a>": 5, "plain": 4})
    write(tmp_path, "tokenizer_config.json", {"eos_token": "<config>", "bos_token": "<b>"})
    found = read_settings(tmp_path)
    assert {kind: token.content for kind, token in found.specials.items() if token} == {"eos": "<map>", "bos": "<b>"}
    assert [(i, token.content, token.special) for i, token in found.added] == [(4, "plain", False), (5, "<a>", True)]
    assert [token.content for token in found.extra] == ["<a>"]
    listed = {"7": {"content": "<config>", "rstrip": True, "special": True}}
    write(tmp_path, "tokenizer_config.json", {"eos_token": "<config>", "added_tokens_decoder": listed})
    found = read_settings(tmp_path)
    assert [(i, token.content) for i, token in found.added] == [(7, "<config>")]
    assert found.specials["eos"] is not None
    assert found.specials["eos"].rstrip
    assert found.extra == ()


def test_further_special_tokens_come_as_list_or_object(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer_config.json", {"extra_special_tokens": {"image_token": "<image>"}})
    assert [token.content for token in read_settings(tmp_path).extra] == ["<image>"]
    write(tmp_path, "tokenizer_config.json", {"additional_special_tokens": ["<x>", {"content": "<y>"}]})
    assert [token.content for token in read_settings(tmp_path).extra] == ["<x>", "<y>"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds a list, not an object"),
        ("[" * 100_000, "is not JSON"),
        ({"pad_token": 3}, "no list of tokens"),
        ({"pad_token": {"text": "<pad>"}}, "no list of tokens"),
        ({"pad_token": {"content": 3}}, "no list of tokens: a token is 3, not text"),
        ({"additional_special_tokens": 3}, "no list of tokens"),
        ({"added_tokens_decoder": {"x": "<pad>"}}, "no list of tokens"),
        ({"added_tokens_decoder": ["<pad>"]}, "no list of tokens"),
        ({"chat_template": 3}, "no list of tokens"),
        ({"chat_template": [{"name": "default"}]}, "no list of tokens"),
    ],
)
def test_damage_is_named(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"tokenizer_config.json.* {said}"):
        read_settings(write(tmp_path, "tokenizer_config.json", content))


def test_a_template_that_is_not_utf_8_is_damage_too(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="or a file beside it is no list of tokens"):
        read_settings(tmp_path)


def test_options_are_of_their_kind() -> None:
    found = Settings({"yes": True, "null": None, "word": "true", "many": 10**9, "three": 3})
    assert (found.flag("yes"), found.flag("null", True), found.flag("none")) == (True, True, False)
    assert (found.count("three", 100), found.count("none", 100)) == (3, 100)
    with pytest.raises(ValueError, match=r"tokenizer_config.json has word='true'; it is true or false"):
        found.flag("word")
    for name in ("many", "yes", "word"):
        with pytest.raises(
            ValueError, match=f"tokenizer_config.json has {name}=.*; it is a number of tokens, up to 10000"
        ):
            found.count(name, 1)
