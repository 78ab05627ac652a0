"""Text in, text out."""

from typing import Any

import pytest
import tokenizers
import torch

from clearhead.generation.generate import generate
from clearhead.generation.text import complete, pieces, stream_text, translate
from clearhead.model.transformer import Transformer
from clearhead.text.build import bytes_tokenizer, char_tokenizer, word_tokenizer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from generation.toys import Toy, decoder_only, encoder_decoder

SMILE = "🙂"
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def parrot(tokenizer: Tokenizer, answer: str) -> Toy:
    """A decoder that writes this answer, whatever came before, then eos for ever."""
    ids = [i for i in tokenizer.encode(answer) if i not in (tokenizer.bos, tokenizer.eos)]

    def odds(text: tuple[int, ...]) -> dict[int, float]:
        written = len(text) - prompt + 1
        return {ids[written] if written < len(ids) else 2: 1.0}

    toy = Toy(odds, vocab=len(tokenizer), bos=1, pad=0, eos=2)
    toy.tokenizer = tokenizer
    prompt = 3
    return toy


@pytest.mark.parametrize("marks", [{}, {"bos": True}, {"eos": True}, {"bos": True, "eos": True}], ids=str)
def test_complete_continues_the_text_and_not_its_end(marks: dict[str, bool]) -> None:
    prompt = "ab" if marks.get("bos") else "abc"  # three tokens with its bos
    toy = parrot(bytes_tokenizer(**marks), "xyz")
    assert complete(toy, prompt) == prompt + "xyz"
    assert complete(toy, [prompt, prompt]) == [prompt + "xyz"] * 2
    assert complete(toy, prompt, num_beams=2) == prompt + "xyz"
    assert "".join(stream_text(toy, prompt)) == "xyz"


def test_complete_of_nothing_starts_from_bos_and_other_rows_do_not_care() -> None:
    model = decoder_only(vocab=259, bos=1, pad=0, eos=2)
    model.tokenizer = bytes_tokenizer()
    nothing, something = complete(model, ["", "abc"], max_new_tokens=5)
    assert nothing == complete(model, "", max_new_tokens=5)
    assert something == complete(model, "abc", max_new_tokens=5)
    assert nothing == model.tokenizer.decode(generate(model, torch.tensor([[1]]), max_new_tokens=5)[0])


def test_padding_never_shows_even_where_the_tokenizer_has_none() -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "c": 2}))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    model = decoder_only(vocab=3, bos=None, pad=None, eos=None)
    model.tokenizer = Tokenizer(inner, {})
    texts = ["b", "bcab"]
    for text, given in zip(complete(model, texts, eos_token_id=0), texts, strict=True):
        assert text == complete(model, given, eos_token_id=0)
        assert text.startswith(given)


def translator(table: int | None = None) -> Transformer:
    source = char_tokenizer(["abcdefgh"], eos=True)
    target = word_tokenizer(NUMBERS, eos=True)
    model = encoder_decoder(vocab=len(target), table=table, bos=1, pad=0, eos=2, start=1)
    model.tokenizer = Pair(source, target)
    return model


def test_translate_reads_with_one_tokenizer_and_writes_with_the_other() -> None:
    model = translator()
    texts = ["abc", "hg", "deadbeef"]
    together = translate(model, texts)
    assert isinstance(together, list)
    assert [translate(model, text) for text in texts] == together
    assert set(" ".join(together).split()) <= set(NUMBERS)
    ids = generate(model, **model.tokenizer(["abc"]), max_new_tokens=256)
    assert translate(model, "abc") == model.tokenizer.decode(ids[0])
    assert "".join(stream_text(model, "abc")) == translate(model, "abc")
    beams = {"num_beams": 3, "max_new_tokens": 4}
    assert translate(model, "abc", **beams) == translate(model, ["abc"], **beams)[0]


def test_translate_stops_after_256_tokens_or_at_the_end_of_the_table() -> None:
    for table, room in ((None, 256), (12, 11)):
        model = translator(table)
        assert model.head is not None
        model.head.bias = torch.nn.Parameter(torch.zeros(model.last.form.vocab))
        model.head.bias.data[3] = 100.0  # a word, for ever
        assert len(translate(model, "abc").split()) == room
        assert len(translate(model, "abc", max_new_tokens=5).split()) == 5


def test_the_wrong_kind_of_model_or_no_tokenizer() -> None:
    model = decoder_only(vocab=259)
    with pytest.raises(ValueError, match=r"model\.tokenizer is None"):
        complete(model, "abc")
    model.tokenizer = bytes_tokenizer()
    with pytest.raises(ValueError, match=r"translate needs an encoder and a decoder.*try complete"):
        translate(model, "abc")
    with pytest.raises(ValueError, match=r"complete needs a decoder only.*try translate"):
        complete(translator(), "abc")
    with pytest.raises(ValueError, match="return_dict_in_generate is True, but here each text gives one text"):
        complete(model, "abc", return_dict_in_generate=True)
    with pytest.raises(ValueError, match="num_return_sequences is 2, but here each text gives one text"):
        translate(translator(), "abc", num_beams=2, num_return_sequences=2)


def test_gen_15_half_a_character_waits_and_comes_once() -> None:
    tokenizer = bytes_tokenizer()
    ids = tokenizer.encode("a" + SMILE + "é!")
    seen: list[Any] = []

    def told() -> Any:
        for i in ids:
            seen.append(None)
            yield i

    for piece in pieces(tokenizer, [], told()):
        seen.append(piece)
    assert [x for x in seen if x] == ["a", SMILE, "é", "!"]
    assert seen == [None, "a", None, None, None, None, SMILE, None, None, "é", None, "!"]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_gen_15_a_cut_off_tail_is_one_replacement_character_at_the_end(cut: int) -> None:
    tokenizer = bytes_tokenizer()
    ids = tokenizer.encode("ab" + SMILE)[: 2 + cut]
    assert list(pieces(tokenizer, [], ids)) == ["a", "b", "\ufffd"]
    assert list(pieces(tokenizer, [], [*ids, *tokenizer.encode("c")]))[-1].endswith("c")


def test_gen_15_words_keep_their_blanks() -> None:
    tokenizer = word_tokenizer(["one two three"])
    ids = tokenizer.encode("one two three")
    assert list(pieces(tokenizer, [], ids)) == ["one", " two", " three"]
    assert list(pieces(tokenizer, ids[:1], ids[1:])) == [" two", " three"]
    assert list(pieces(tokenizer, [], [1, *ids, 2])) == ["one", " two", " three"]
