"""SentencePiece's files read as data: what is in them, and damage of every kind."""

import io
from functools import cache
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.piece_model import PieceModel, read_piece_model
from clearhead.text.sentence_pieces import SentencePieces


@cache
def trained(kind: str = "unigram") -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat", "größte Straße", "one two three"] * 3),
        model_writer=out,
        model_type=kind,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        user_defined_symbols="<x>",
    )
    return out.getvalue()


def read(content: bytes, folder: Path) -> PieceModel:
    (folder / "spiece.model").write_bytes(content)
    return read_piece_model(folder / "spiece.model")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pieces_scores_and_kinds_are_the_librarys(kind: str, tmp_path: Path) -> None:
    model, library = read(trained(kind), tmp_path), sentencepiece.SentencePieceProcessor(model_proto=trained(kind))
    size = library.get_piece_size()
    assert model.pieces == tuple((library.id_to_piece(i), library.get_score(i)) for i in range(size))
    assert model.vocab == {library.id_to_piece(i): i for i in range(size)}
    assert [i for i, kind in enumerate(model.kinds) if kind == 3] == [i for i in range(size) if library.is_control(i)]
    assert model.kinds[model.vocab["<x>"]] == 4
    assert (model.unk, model.method) == (library.unk_id(), kind)
    assert len(model.charsmap) > 100_000


def test_other_methods_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"spiece\.model is not .*trained by method 4; known are 1 .* and 2"):
        read(trained("char"), tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"not a model", b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x02\x18\x01"]
)
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"spiece\.model is not a SentencePiece model, or is damaged"):
        read(content, tmp_path)


def test_a_score_must_be_a_number(tmp_path: Path) -> None:
    piece = b"\x0a\x01a\x15\x00\x00\xc0\x7f"  # "a" with the score nan
    with pytest.raises(ValueError, match="the score nan of a piece"):
        read(bytes([0x0A, len(piece)]) + piece, tmp_path)


def test_a_model_that_is_cut_is_read_in_part_or_refused(tmp_path: Path) -> None:
    """No end is marked in the format: cut between two fields it is whole. Nothing else than ValueError comes out."""
    whole = read(trained(), tmp_path)
    refused = 0
    for size in range(0, len(trained()), 997):
        try:
            part = read(trained()[:size], tmp_path)
        except ValueError:
            refused += 1
        else:
            assert whole.pieces[: len(part.pieces)] == part.pieces
    assert refused > 200


def test_a_map_of_characters_that_leads_out_of_itself_is_refused(tmp_path: Path) -> None:
    """The library would panic at the first text that goes there."""
    at = trained().index(read(trained(), tmp_path).charsmap)
    for cut in (0, 4, 400, 4000):
        damaged = bytearray(trained())
        damaged[at + cut : at + cut + 4] = b"\xff\xff\xff\x7f"
        with pytest.raises(ValueError, match="the map of characters"):
            read(bytes(damaged), tmp_path)


@pytest.mark.parametrize(
    ("value", "texts", "said"),
    [
        (0, b"\xc3\xa9\0", None),
        (1, b"\xc3\xa9\0", "into the middle of a character"),
        (0, b"\xc3\xa9", "into the middle of a character"),
        (9, b"\xc3\xa9\0", "out of itself"),
        (0, b"", "and 0 bytes of texts"),
        (0, b"\xff\0", "can't decode"),
    ],
)
def test_a_map_of_characters_leads_to_whole_texts(value: int, texts: bytes, said: str | None, tmp_path: Path) -> None:
    trie = bytes(4 * 5) + (1 << 31 | value).to_bytes(4, "little") + bytes(4 * 250)
    charsmap = (1024).to_bytes(4, "little") + trie + texts
    inner = b"\x12" + number(len(charsmap)) + charsmap
    content = trained() + b"\x1a" + number(len(inner)) + inner  # of fields that stand twice, the last one counts
    if said is None:
        assert read(content, tmp_path).charsmap == charsmap
    else:
        with pytest.raises(ValueError, match=said):
            read(content, tmp_path)


def number(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7])


@given(st.integers(0, len(trained()) - 1), st.integers(0, 255))
def test_any_changed_byte_is_harmless_or_refused(place: int, byte: int) -> None:
    import tempfile

    from clearhead.text.vocabulary import charsmap, unigrams

    damaged = bytearray(trained())
    damaged[place] = byte
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = read(bytes(damaged), Path(folder))
        except ValueError:
            return
    inner = unigrams(model.pieces, model.unk, charsmap(model))
    assert len(inner.encode("the größte ﬁne cat 🙂").ids) > 3


def test_the_library_refuses_what_it_cannot_read() -> None:
    with pytest.raises(ValueError, match="the sentencepiece library cannot read the model"):
        SentencePieces(b"nothing", {"<unk>": 0}, "<unk>", [])
    with pytest.raises(ValueError, match="the token '</s>' is not in the vocabulary of 1"):
        SentencePieces(trained(), {"<unk>": 0}, "<unk>", [], after=["</s>"])


def test_pieces_come_with_the_characters_they_stand_for() -> None:
    names = sentencepiece.SentencePieceProcessor(model_proto=trained())
    vocab = {names.id_to_piece(i): i for i in range(names.get_piece_size())}
    inner = SentencePieces(
        trained(), vocab, "<unk>", ["<s>", "</s>", "<unk>"], ["<s>"], ["</s>"], lead="<<.*?>>", gap=" "
    )
    text = "<<de>>the  größte🙂</s>cat"
    found = inner.encode(text)
    assert found.offsets[:2] == [(0, 0), (0, 6)]
    assert "".join(text[start:end] for start, end in found.offsets) == text
    assert found.ids[0] == vocab["<s>"]
    assert found.ids[1] == vocab["<unk>"]
    assert inner.decode(found.ids[2:], skip_special_tokens=False) == "the größte<unk> </s> cat</s>"
    assert inner.decode([*found.ids[2:5], 999]) == inner.decode(found.ids[2:5])
    assert inner.encode(text, add_special_tokens=False).ids == found.ids[1:-1]


def test_the_longest_special_token_counts() -> None:
    vocab = {"<unk>": 0, "<s>": 1, "<s>>": 2}
    inner = SentencePieces(trained(), vocab, "<unk>", ["<s>", "<s>>"])
    assert inner.encode("<s>><s>").ids == [2, 1]
