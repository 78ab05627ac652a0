"""Tokens in the form of text: blanks are blanks, half a character shows its bytes."""

import tokenizers
import torch
from tokenizers import decoders, models

from clearhead.model.transformer import Transformer
from clearhead.text.build import bpe_tokenizer, bytes_tokenizer, char_tokenizer, word_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.view.spelling import running, spelled
from model.tiny import learned_decoder


def _model(tokenizer: Tokenizer | Pair | None) -> Transformer:
    model = Transformer(learned_decoder())
    model.tokenizer = tokenizer
    return model


def test_vis_10_bytes_that_are_half_a_character_are_shown_as_such() -> None:
    tokenizer = bytes_tokenizer(eos=True)
    ids = torch.tensor(tokenizer.encode("Se\u00e1n \U0001f642", add_special_tokens=True))
    assert spelled(_model(tokenizer), ids, "decoder") == [
        *("S", "e", "⟨C3⟩", "⟨A1⟩", "n", " ", "⟨F0⟩", "⟨9F⟩", "⟨99⟩", "⟨82⟩", "</s>"),
    ]


def test_a_blank_in_front_is_a_blank() -> None:
    tokenizer = bpe_tokenizer(["one two one two one two"] * 3, 300)
    ids = torch.tensor(tokenizer.encode("one two"))
    assert spelled(_model(tokenizer), ids, "decoder") == ["one", " two"]


def test_sentence_pieces_blanks_and_bytes() -> None:
    vocabulary = {"\u2581one": 0, "\u2581": 1, "two": 2, "<0xF0>": 3, "<0x0A>": 4, "<unk>": 5}
    inner = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    inner.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    found = spelled(_model(Tokenizer(inner, {})), torch.tensor([0, 1, 2, 3, 4, 70]), "decoder")
    assert found == [" one", " ", "two", "⟨F0⟩", "\n", "<70>"]


def test_a_bar_of_ones_own_stays() -> None:
    tokenizer = char_tokenizer(["a\u2581b"])
    assert spelled(_model(tokenizer), torch.tensor(tokenizer.encode("a\u2581b")), "decoder") == ["a", "\u2581", "b"]


def test_source_target_and_no_tokenizer() -> None:
    pair = Pair(word_tokenizer(["one two"], eos=True), word_tokenizer(["un deux"], eos=True))
    source, target = (torch.tensor(pair.encode(text, target=text == "un")) for text in ("one", "un"))
    assert spelled(_model(pair), source, "encoder") == ["one", "</s>"]
    assert spelled(_model(pair), target, "decoder") == ["un", "</s>"]
    assert spelled(_model(None), torch.tensor([3, 1]), "decoder") == ["3", "1"]


def test_in_a_text_words_and_their_pieces_stand_apart_as_they_should() -> None:
    vocabulary = {"[UNK]": 0, "look": 1, "##s": 2, ",": 3, "at": 4, "[CLS]": 5}
    inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.decoder = decoders.WordPiece()
    inner.add_special_tokens(["[CLS]"])
    ids = torch.tensor([5, 1, 2, 3, 4, 5])
    model = _model(Tokenizer(inner, {}))
    assert spelled(model, ids, "encoder") == ["[CLS]", "look", "##s", ",", "at", "[CLS]"]
    assert running(model, ids, "encoder") == ["[CLS]", " look", "s", ",", " at", "[CLS]"]

    words = word_tokenizer(["one two"], eos=True)
    ids = torch.tensor(words.encode("one two", add_special_tokens=True))
    assert running(_model(words), ids, "decoder") == ["one", " two", "</s>"]


def test_tokens_that_spell_the_text_stay_as_they_are_in_it() -> None:
    for tokenizer in (bpe_tokenizer(["one two one two"] * 3, 300), char_tokenizer(["one tw"]), None):
        ids = torch.tensor([3, 4] if tokenizer is None else tokenizer.encode("one two"))
        assert running(_model(tokenizer), ids, "decoder") == spelled(_model(tokenizer), ids, "decoder")
