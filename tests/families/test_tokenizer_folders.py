"""Folders with a tokenizer that is special, damaged, unknown or not there, and a model that comes with one."""

import json
import logging
import warnings
from pathlib import Path

import pytest
import sentencepiece

import clearhead
import families.vocabularies as make
from clearhead.families.languages import M2M100, MBART, MBART50
from clearhead.families.tokenizers import load_tokenizer
from clearhead.text.tokenizer import Tokenizer
from families.kinds import KINDS, TEXTS

SIZES = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}


def test_mbart_keeps_the_models_normaliser(tmp_path: Path) -> None:
    """Transformers 5.24 leaves it out, so that full-width letters are unknown; SentencePiece itself does as we do."""
    from transformers import AutoTokenizer

    files = {"sentencepiece.bpe.model": make.unigram()}
    make.write(tmp_path, files, "mbart", tokenizer_class="MBartTokenizer", src_lang="de_DE")
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_proto=make.unigram())
    for text in ("Hello world", "größte  Straße ", "the </s> cat", "人工"):
        assert ours.encode(text) == theirs(text)["input_ids"]
    for text in ("ﬁne Ｂ①½", "Hello world", "größte Straße"):
        assert [0 if i == 3 else i - 1 for i in ours.encode(text)[:-2]] == processor.encode(text)
    assert ours.encode("the")[-2:] == [2, len(make.names_of(make.unigram())) + 1 + MBART.index("de_DE")]
    assert ours.mask == ours.vocab_size - 1


def test_nllb_counts_the_listed_languages_behind_the_pieces(tmp_path: Path) -> None:
    """As the published checkpoints do (eng_Latn 256047 of 256204). Transformers 5.24 counts the mask first."""
    from transformers import AutoTokenizer

    codes = ["ace_Arab", "deu_Latn", "eng_Latn"]
    files = {"sentencepiece.bpe.model": make.byte_fallback()}
    config = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": codes}
    make.write(tmp_path, files, "m2m_100", **config, src_lang="deu_Latn")
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    size = len(make.names_of(make.byte_fallback())) + 1
    assert [ours.inner.token_to_id(token) for token in (*codes, "<mask>")] == [size, size + 1, size + 2, size + 3]
    for text in TEXTS:
        if "<mask>" not in text:
            assert ours.encode(text) == [size + 1, *theirs(text)["input_ids"][1:]]
    make.write(tmp_path, files, "m2m_100", tokenizer_class="NllbTokenizer")
    with pytest.raises(
        ValueError, match="every text should get the token 'eng_Latn', but the vocabulary of 482 lacks it"
    ):
        load_tokenizer(tmp_path)


def test_languages_that_the_folder_does_not_list_are_known() -> None:
    assert (len(MBART), len(MBART50), len(M2M100)) == (25, 52, 100)
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES
    from transformers.models.mbart50 import tokenization_mbart50

    assert FAIRSEQ_LANGUAGE_CODES["m2m100"] == M2M100
    assert tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES == MBART50


def test_an_unlisted_language_is_special_all_the_same(tmp_path: Path) -> None:
    make.write(tmp_path, make.many_languages(), "m2m_100", tokenizer_class="M2M100Tokenizer")
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, Tokenizer)
    ids = ours.encode("hello __fr__")
    assert ours.pieces(ids)[0] == "__en__"
    assert ours.pieces(ids)[-2] == "__fr__"
    assert ours.decode(ids) == "hello"


def test_a_language_that_is_not_there_is_named(tmp_path: Path) -> None:
    make.write(tmp_path, make.many_languages(), "m2m_100", tokenizer_class="M2M100Tokenizer", src_lang="xx")
    with pytest.raises(ValueError, match="'__xx__' is not in the vocabulary of 230"):
        load_tokenizer(tmp_path)


def test_a_whisper_folder_may_name_language_and_task(tmp_path: Path) -> None:
    make.write(tmp_path, make.whisper_files(), "whisper", language="de", task="translate", predict_timestamps=True)
    ours = load_tokenizer(tmp_path)
    assert ours.pieces(ours.encode("x")) == ["<|startoftranscript|>", "<|de|>", "<|translate|>", "x", make.END]


def test_a_folder_may_hold_no_tokenizer_or_one_that_nobody_here_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make.write(tmp_path, {}, "gpt2")
    assert load_tokenizer(tmp_path) is None
    assert not caplog.records
    make.write(tmp_path, {"vocab.txt": make.word_pieces()}, "albert")
    with caplog.at_level(logging.WARNING):
        assert load_tokenizer(tmp_path) is None
    assert "holds vocab.txt, which tokenizer_class AlbertTokenizer does not read" in caplog.text
    make.write(tmp_path, {}, "bert", tokenizer_class="BertJapaneseTokenizer")
    with caplog.at_level(logging.WARNING):
        assert load_tokenizer(tmp_path) is None
    assert "no known class reads (it names BertJapaneseTokenizer)" in caplog.text


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json", "tokenizer.json"])
def test_ckp_12_no_file_outside_the_folder_is_opened(name: str, tmp_path: Path) -> None:
    folder = make.write(tmp_path / "model", make.gpt2_files(), "gpt2", add_bos_token=True)
    (tmp_path / name).write_text("secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} is a link out of the folder") as said:
        load_tokenizer(folder)
    assert "secret" not in str(said.value)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "t5", "llama", "m2m100", "marian", "whisper"])
def test_a_damaged_file_gives_one_plain_error(kind: str, tmp_path: Path) -> None:
    """Cut short, emptied, or another file in its place: a ValueError that names it, or a tokenizer that still works."""
    files, model_type, config = KINDS[kind]
    whole, refused = files(), 0
    for name, content in whole.items():
        good = content if isinstance(content, bytes | str) else json.dumps(content)
        good = good if isinstance(good, bytes) else good.encode()
        for bad in (b"", good[: len(good) // 2], good[:-3], b"\xff\xfe" + good[2:], good[::-1], b"{}", b"[1, 2]"):
            folder = make.write(tmp_path, {**whole, name: bad}, model_type, **config)
            try:
                found = load_tokenizer(folder)
            except ValueError:
                refused += 1
            else:
                assert found is not None
                assert found.encode("the cat")
    assert refused >= 3 * len(whole)


def test_a_translator_with_its_tokenizer_translates_as_at_home_and_is_saved_with_it(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, MarianConfig, MarianMTModel

    files = make.two_sided()
    size = len(files["vocab.json"])
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in SIZES.items()}
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "forced_eos_token_id": None}
    home = MarianMTModel(MarianConfig(vocab_size=size, d_model=16, **sizes, **ids)).eval()
    make.write(tmp_path / "m", files, "marian", source_lang="en", target_lang="de")
    home.save_pretrained(tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = AutoTokenizer.from_pretrained(tmp_path / "m")
    model = clearhead.load(tmp_path / "m")
    text = "the cat sat on the mat"
    found = home.generate(**theirs(text, return_tensors="pt"), max_new_tokens=12, num_beams=1)
    expected = theirs.decode(found[0], skip_special_tokens=True)
    assert clearhead.translate(model, text, max_new_tokens=12) == expected
    clearhead.save(model, tmp_path / "saved")
    assert clearhead.translate(clearhead.load(tmp_path / "saved"), text, max_new_tokens=12) == expected
    assert (tmp_path / "saved" / "source.spm").read_bytes() == files["source.spm"]
    (tmp_path / "saved" / "config.json").write_text("{}")
    again = load_tokenizer(tmp_path / "saved")  # its class stands in the folder now
    assert again is not None
    assert again.encode(text) == theirs(text)["input_ids"]
