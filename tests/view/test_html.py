"""The saved file: one document that holds everything and can run nothing but the page's own module."""

import base64
import hashlib
import json
import math
import re
import struct
import zlib
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.config import TextClassifier
from clearhead.text.build import piece_tokenizer
from clearhead.view.html import framed, html
from clearhead.view.letters import letters, written
from clearhead.view.look import look
from clearhead.view.page import inlined, module, policy
from clearhead.view.pooling import block
from clearhead.view.reading import Part, Reading
from clearhead.view.scene import Scene
from model.tiny import learned_encoder
from view.scenes import TEXT, alike_and_not, floats, reader, recording, scene_of, translator, weights, writer

HOSTILE = ["a<b<c", "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--<script>", "${x}"]
HOSTILE += ["`", "'\"&amp;", "\u2028\u2029", "\u202eabc", "\x1b[31m", "]]>", "javascript:alert(3)", "\x00", "\ud800"]


class Document(HTMLParser):
    """The elements of a page, its scripts by type, and all words outside them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attributes, text = self.scripts.pop()
            self.scripts.append((attributes, text + data))
        else:
            self.words += data


def answers(page: str) -> dict[str, tuple[dict[str, Any], bytes]]:
    """What is stored in a page, by key."""
    found: dict[str, tuple[dict[str, Any], bytes]] = {}
    for attributes, text in Document(page).scripts:
        if attributes.get("type") == "application/octet-stream":
            data = zlib.decompress(unlettered(text), wbits=-15)
            (length,) = struct.unpack("<I", data[:4])
            head = json.loads(data[4 : 4 + length])
            codes = bytearray(data[4 + length :])
            if head.pop("from_above", False):
                wide = head["columns"]
                for i in range(2 * wide, len(codes)):
                    codes[i] = (codes[i] + (codes[i - wide] + codes[i - 2 * wide]) // 2) % 256
            found[str(attributes["data-key"])] = (head, bytes(codes))
    return found


def unlettered(text: str) -> bytes:
    """13 bits of every two letters; a missing last letter stands for 0."""
    number = {code: i for i, code in enumerate(code for code in map(chr, range(32, 127)) if code not in '"&<\\')}
    pairs = zip(text[::2], f"{text[1::2]} ", strict=False)
    bits = "".join(f"{91 * number[first] + number[second]:013b}" for first, second in pairs)
    size = 13 * len(text) // 16
    return int(bits[: 8 * size] or "0", 2).to_bytes(size, "big")


def test_it_holds_the_scenes_own_answers() -> None:
    scene = scene_of(translator(), TEXT, "what it")
    found = answers(html(scene))
    assert found['overview {"stack":"cross"}'][1] == scene.ask("overview", {"stack": "cross"}).data
    for part in scene.shown.reading.parts:
        for layer in range(2):
            for head in range(3):
                key = f'image {{"head":{head},"layer":{layer},"stack":"{part.name}"}}'
                right = scene.ask("image", {"stack": part.name, "layer": layer, "head": head})
                assert found[key] == (right.head, right.data)
    lens = {"stack": "decoder", "query": 1}
    assert found['lens {"query":1,"stack":"decoder"}'][0] == scene.ask("lens", lens).head
    meta = found["meta {}"][0]
    assert not meta["live"]
    assert meta["can"] == {"lens": ["decoder"], "ablate": False, "look": False, "step": False}
    assert meta["tokens"] == scene.ask("meta").head["tokens"]
    assert meta["note"] == "A saved page; to ask the model itself, use clearhead serve."


def test_named_heads_hold_their_exact_rows() -> None:
    for n, kept in ((9, 4), (150, 1)):  # of a short text those of all heads
        scene = recording(n)
        found = answers(html(scene, heads=[(1, 0)]))
        head, data = found['rows {"head":0,"layer":1,"stack":"decoder"}']
        assert head == {"queries": n, "keys": n}
        assert torch.equal(floats(data).view(n, n), block(scene.shown.reading.parts[0].layers[1], 0, slice(None)))
        assert sum(key.startswith("rows") for key in found) == kept
        assert found["meta {}"][0]["approximate"] == (kept == 1)
        assert ("≈" in found["meta {}"][0]["note"]) == (kept == 1)


@pytest.mark.parametrize("name", ["decoder", "encoder"])
def test_vis_02_the_size_of_12_by_12_heads_and_128_tokens(name: str) -> None:
    """Random queries and keys: hardly anything to press together, and in an encoder nothing is hidden."""
    words = [f"token{i}" for i in range(128)]
    views = [weights(128, 128, heads=12, causal=name == "decoder") for _ in range(12)]
    page = html(Scene(Reading.of([Part(name, words, words, views)])))
    assert len(answers(page)) == 2 + 144
    assert len(page.encode()) <= 2_000_000


def test_rows_that_are_alike_are_stored_as_what_they_differ_by() -> None:
    """In a picture of noise there is nothing to gain by it."""
    scene = alike_and_not()
    found = answers(html(scene))
    for layer in (0, 1):
        args = {"stack": "encoder", "layer": layer, "head": 0}
        answer = scene.ask("image", args)
        assert (b'"from_above":true' in zlib.decompress(unlettered(written(answer)), wbits=-15)) == (layer == 0)
        assert found[f'image {{"head":0,"layer":{layer},"stack":"encoder"}}'] == answer


def test_bytes_as_letters_that_nothing_changes() -> None:
    """Neither HTML, nor JSON, nor the quotes of an attribute; of every length, and of every last byte."""
    random = torch.Generator().manual_seed(0)
    for size in range(40):
        for last in range(0, 256, 15):
            data = bytes(torch.randint(0, 256, (size,), generator=random).tolist())[:-1] + bytes([last] * (size > 0))
            text = letters(data)
            assert len(text) == math.ceil(16 * size / 13)
            assert unlettered(text) == data
            assert escape(text, quote=False).replace("&gt;", ">") == text
            assert json.dumps(text) == f'"{text}"'
            assert text.isprintable()


def test_what_has_no_room_is_named_and_no_file_is_larger() -> None:
    scene = recording(200, layers=6, heads=4)
    whole = html(scene)
    size = len(whole.encode()) / 1e6
    page = html(scene, heads=[(5, 3)], max_mb=size - 0.2)
    assert len(page.encode()) < (size - 0.2) * 1e6
    found = answers(page)
    assert 'image {"head":3,"layer":5,"stack":"decoder"}' in found  # what is asked for comes first
    note = found["meta {}"][0]["note"]
    pictures = sum(key.startswith("image") for key in found)
    assert 0 < pictures < 24
    assert re.search(
        rf"Left out, for want of room in [\d.]+ MB: {24 - pictures} of 24 pictures, 1 of 1 exact heads\.", note
    )
    with pytest.raises(ValueError, match=r"max_mb=0\.001 has no room for the overview; give more"):
        html(scene, max_mb=0.001)


def test_a_long_recording_becomes_a_file_of_bounded_size() -> None:
    page = html(recording(3000, layers=1))
    found = answers(page)
    assert len(page.encode()) < 3e6
    head, data = found['image {"head":1,"layer":0,"stack":"decoder"}']
    assert (head["rows"], len(data)) == (500, 500 * 500)
    assert found['overview {"stack":"decoder"}'][0]["done"]  # nobody can ask for more


def test_vis_03_only_the_pages_own_module_may_run_and_nothing_may_be_fetched() -> None:
    page = html(scene_of(writer(), "abc"))
    document = Document(page)
    (allowed,) = [a["content"] or "" for tag, a in document.tags if a.get("http-equiv") == "Content-Security-Policy"]
    (script,) = [text for attributes, text in document.scripts if attributes.get("type") == "module"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in allowed.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert "unsafe" not in allowed
    assert script.startswith(module())
    assert "import " not in re.sub(r"//.*|/\*.*?\*/", "", script, flags=re.DOTALL).split("const STYLE")[0]
    assert not any(name in attributes for _, attributes in document.tags for name in ("src", "href", "action"))
    assert "http-equiv" in page[: page.index("<style>")]


def _hostile_model() -> Any:
    model = writer()
    pieces = [piece for piece in HOSTILE if piece not in ("\ud800",)]
    model.tokenizer = piece_tokenizer(pieces)
    return model, "".join(pieces)


def test_vis_01_tokens_are_data_wherever_they_stand() -> None:
    model, text = _hostile_model()
    found = look(model, text)
    page = found.html()
    clean = Document(html(scene_of(writer(), "abc")))
    document = Document(page)
    assert {tag for tag, _ in document.tags} == {tag for tag, _ in clean.tags}
    assert all(not name.startswith("on") for _, attributes in document.tags for name in attributes)
    assert not [text for attributes, text in document.scripts if "alert(" in text]
    stored = answers(page)["meta {}"][0]
    assert "".join(stored["tokens"]["decoder"]) == text
    assert stored["title"].startswith("a<b<c<img src=x")


def test_titles_and_names_of_a_recording_are_data_too() -> None:
    tokens = [*HOSTILE, "plain"]
    n = len(tokens)
    scene = Scene(Reading.of([Part("decoder", tokens, tokens, [weights(n, n)])]), None, HOSTILE[2])
    document = Document(html(scene))
    assert len([tag for tag, _ in document.tags if tag == "script"]) == len(answers(html(scene))) + 1
    (title,) = [attributes["data-title"] for _, attributes in document.tags if attributes.get("id") == "clearhead"]
    assert title == HOSTILE[2]
    assert HOSTILE[2] in document.words  # in <title>, as text
    assert answers(html(scene))["meta {}"][0]["tokens"]["decoder"] == tokens


def test_json_in_a_script_can_neither_end_it_nor_hide_its_end() -> None:
    text = inlined({"tokens": HOSTILE[:-1]})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"tokens": HOSTILE[:-1]}


def test_vis_04_in_a_notebook_it_stands_in_a_frame_of_its_own() -> None:
    model, text = _hostile_model()
    found = look(model, text)
    shown = found._repr_html_()
    assert shown is not None
    ((tag, attributes),) = Document(shown).tags
    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-scripts allow-downloads"  # its origin is nobody's
    inner = attributes["srcdoc"]
    assert inner is not None
    assert unescape(framed(inner)) == unescape(shown)
    assert "".join(answers(inner)["meta {}"][0]["tokens"]["decoder"]) == text
    assert len(shown) < 4e6


def test_vis_05_a_plain_script_writes_the_file(tmp_path: Path) -> None:
    found = clearhead.look(writer(), "abc", heads=[(0, 1)])
    (tmp_path / "a.html").write_text(found.html(), encoding="utf-8")
    assert answers((tmp_path / "a.html").read_text(encoding="utf-8"))["meta {}"][0]["tokens"]["decoder"] == list("abc")


def test_a_look_that_was_only_recorded_has_a_page() -> None:
    found = look(writer(), "abc")
    alone = type(found)(found.parts, (), "entropy", 8)
    assert answers(alone.html())["meta {}"][0]["stacks"][1]["queries"] == 3


def test_every_place_of_the_model_is_closed_in_the_policy() -> None:
    assert "connect-src 'self'" in policy(connect=True)
    assert "script-src 'self'" in policy(connect=True)
    assert "unsafe" not in policy()


def test_a_model_whose_head_names_no_tokens_has_a_page_without_a_lens() -> None:
    config = learned_encoder()
    model = reader(replace(config, head=TextClassifier(labels=("a", "b"), pool="first")))
    found = answers(html(scene_of(model, "abc")))
    assert not [key for key in found if key.startswith("lens")]
    assert found["meta {}"][0]["can"]["lens"] == []
    with pytest.raises(ValueError, match="this model's head names no tokens"):
        scene_of(model, "abc").ask("ablate", {"heads": [], "query": 0})
