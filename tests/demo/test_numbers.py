"""The embedded task against num2words, its gold alignment, and the splits."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from clearhead.demo.numbers import SAMPLE, bag_ceiling, draws, gold, members, split, tokenizer, words
from clearhead.demo.spell import GERMAN_SMALL, GERMAN_TENS, LIMIT, Language, pieces, spell

NUMBERS = st.integers(0, LIMIT - 1)
LANGUAGES = pytest.mark.parametrize("to", ["en", "de", "fr"])
# German piece -> English word, for the numbers whose words differ in more than the language
ENGLISH_SMALL = [num2words(i) for i in range(20)]
MEANING = dict(zip(GERMAN_SMALL, ENGLISH_SMALL, strict=True)) | {"eins": "one", "hundert": "hundred"}
MEANING |= dict(zip(GERMAN_TENS[2:], (num2words(i) for i in range(20, 100, 10)), strict=True)) | {"tausend": "thousand"}
FRENCH = {num2words(i, lang="fr"): num2words(i) for i in (*range(17), 20, 30, 40, 50, 60)}
FRENCH |= {"cent": "hundred", "cents": "hundred", "mille": "thousand"}


def others(n: int, to: Language) -> str:
    """num2words, without the commas of its English and with its one German mistake put right.

    It writes "eins" before "tausend" where the thousands end in 01 and are not 1: 101, 201 ... 901, 0.9 % of all.
    German has "eintausend" there, as num2words itself writes for 1,000.
    """
    text = num2words(n, lang=to).replace(",", "")
    return text.replace("einstausend", "eintausend") if to == "de" else text


@LANGUAGES
def test_every_number_below_ten_thousand_is_spelled_as_by_num2words(to: Language) -> None:
    assert [n for n in range(10_000) if spell(n, to) != others(n, to)] == []


@LANGUAGES
def test_all_whole_thousands_and_a_stride_over_the_range(to: Language) -> None:
    assert [n for n in (*range(1000, LIMIT, 1000), *range(7, LIMIT, 499)) if spell(n, to) != others(n, to)] == []


@given(NUMBERS)
def test_any_number_is_spelled_as_by_num2words(n: int) -> None:
    assert all(spell(n, to) == others(n, to) for to in ("en", "de", "fr"))


def test_num2words_german_is_wrong_exactly_where_thousands_end_in_01() -> None:
    wrong = {n // 1000 for n in range(0, LIMIT, 1000) if spell(n, "de") != num2words(n, lang="de")}
    assert wrong == {101, 201, 301, 401, 501, 601, 701, 801, 901}
    assert "dreihunderteintausend" in spell(301_630, "de")
    assert "dreihunderteinstausend" in num2words(301_630, lang="de")


@pytest.mark.parametrize(
    ("n", "english", "german", "french"),
    [
        (0, "zero", "null", "zéro"),
        (1, "one", "eins", "un"),
        (17, "seventeen", "siebzehn", "dix-sept"),
        (80, "eighty", "achtzig", "quatre-vingts"),
        (347, "three hundred and forty-seven", "dreihundertsiebenundvierzig", "trois cent quarante-sept"),
        (1_001, "one thousand and one", "eintausendeins", "mille un"),
        (80_200, "eighty thousand two hundred", "achtzigtausendzweihundert", "quatre-vingt mille deux cents"),
        (
            200_071,
            "two hundred thousand and seventy-one",
            "zweihunderttausendeinundsiebzig",
            "deux cent mille soixante et onze",
        ),
        (
            301_630,
            "three hundred and one thousand six hundred and thirty",
            "dreihunderteintausendsechshundertdreißig",
            "trois cent un mille six cent trente",
        ),
    ],
)
def test_by_hand(n: int, english: str, german: str, french: str) -> None:
    assert (spell(n), spell(n, "de"), spell(n, "fr")) == (english, german, french)


def test_numbers_and_languages_out_of_range_are_refused() -> None:
    for n in (-1, LIMIT):
        with pytest.raises(ValueError, match=rf"n={n} is outside 0\.\.999999"):
            spell(n)
    with pytest.raises(ValueError, match="to='nl': the demo spells en, de, fr"):
        spell(1, "nl")  # type: ignore[arg-type]


def test_german_has_the_31_number_words_and_tausend() -> None:
    found = {piece.text for n in SAMPLE for piece in pieces(n, "de")}
    assert found == {*MEANING, "und"}
    assert len(found) == 32
    assert not {"-", ""} & found


@given(NUMBERS, st.sampled_from(["de", "fr"]))
def test_longest_match_cuts_a_number_into_its_pieces(n: int, to: Language) -> None:
    tok = PAIRS[to]
    ids = tok.encode(spell(n, to), target=True)
    assert tok.pieces(ids) == ["<s>", *(piece.text for piece in pieces(n, to)), "</s>"]
    assert tok.decode(ids) == spell(n, to)


@given(NUMBERS)
def test_the_source_is_words_and_an_end(n: int) -> None:
    tok = PAIRS["de"]
    assert tok.pieces(tok.encode(spell(n)), target=False) == [*words(n), "</s>"]
    assert "-".join(words(n)) == spell(n).replace(" ", "-")


PAIRS = {"de": tokenizer("de"), "fr": tokenizer("fr")}


def test_vocabularies() -> None:
    assert (len(PAIRS["de"].source), len(PAIRS["de"].target)) == (31 + 3, 32 + 3)
    assert len(PAIRS["fr"].target) == 67 + 3
    with pytest.raises(ValueError, match="'hundredth' is unknown"):
        PAIRS["de"].encode("one hundredth")


def test_gold_of_347() -> None:
    assert words(347) == ["three", "hundred", "and", "forty", "seven"]
    assert [piece.text for piece in pieces(347, "de")] == ["drei", "hundert", "sieben", "und", "vierzig"]
    assert gold(347) == [0, 1, 4, None, 3]
    assert gold(347, "fr") == [0, 1, 3, 4]
    assert gold(301_630) == [0, 1, 3, 4, 5, 6, 8]
    assert gold(97, "fr") == [None, None, None, 1]  # quatre-vingt-dix is ninety, sept is seven
    assert gold(71, "fr") == [None, None, None]  # onze takes from both words


def check_german(n: int) -> None:
    source, target, index = words(n), [piece.text for piece in pieces(n, "de")], gold(n)
    assert len(index) == len(target)
    for piece, i in zip(target, index, strict=True):
        assert (piece == "und") if i is None else (MEANING[piece] == source[i])
    used = sorted(i for i in index if i is not None)
    assert used == [i for i, word in enumerate(source) if word != "and"], "every other English word is used once"


def check_french(n: int) -> None:
    source, target, index = words(n), [piece.text.strip(" -") for piece in pieces(n, "fr")], gold(n, "fr")
    assert all(FRENCH[piece] == source[i] for piece, i in zip(target, index, strict=True) if i is not None)
    used = [i for i in index if i is not None]
    assert used == sorted(set(used)), "French keeps the order, one piece a word"
    for piece, i in zip(target, index, strict=True):
        assert i is not None or piece in {"et", "dix", "soixante", "quatre", "vingt", "vingts", *TEENS}


TEENS = {num2words(i, lang="fr").removeprefix("dix-") for i in range(11, 20)}


@pytest.mark.parametrize("check", [check_german, check_french])
def test_each_piece_means_its_gold_word(check: Callable[[int], None]) -> None:
    for n in (*SAMPLE, *range(13, LIMIT, 997)):
        check(n)


def crosses(n: int) -> bool:
    return any(a > b for a, b in pairwise(i for i in gold(n) if i is not None))


def test_german_order_crosses_in_92_percent() -> None:
    """A number crosses if its thousands or its last three digits do: 1 - 0.28^2 of them, counted over all."""
    alone = np.array([crosses(n) for n in range(1000)])
    both = alone[:, None] | alone[None, :]
    assert both.sum() == 921_600
    for n in draws("train", 2000, seed=5).tolist():
        assert crosses(n) == both[n // 1000, n % 1000]


def test_bag_ceiling() -> None:
    assert bag_ceiling() == 89_368 / 1_000_000
    assert bag_ceiling(1000) == 676 / 1000
    plain = {tuple(sorted(words(n))) for n in range(30_000)}
    assert bag_ceiling(30_000) == len(plain) / 30_000


def test_splits_share_out_the_range() -> None:
    numbers = np.arange(LIMIT)
    names = split(numbers)
    count = dict(zip(*np.unique(names, return_counts=True), strict=True))
    assert set(count) == {"train", "validation", "hashed", "sevens", "thousands", "both"}
    assert (count["sevens"], count["thousands"], count["both"]) == (90_000, 90_000, 10_000)
    assert abs(count["hashed"] / 810_000 - 0.10) < 0.001
    assert abs(count["validation"] / 810_000 - 0.01) < 0.0005
    for name in ("train", "validation", "hashed"):
        assert not (numbers[names == name] % 10 == 7).any()
        assert not (numbers[names == name] // 1000 // 100 == 4).any()
    assert (numbers[names == "sevens"] % 10 == 7).all()
    assert (numbers[names == "thousands"] // 100_000 == 4).all()


def test_the_hash_holds_out_evenly_and_never_changes() -> None:
    numbers = np.arange(LIMIT)
    rest = (numbers % 10 != 7) & (numbers // 100_000 != 4)
    held = split(numbers) == "hashed"
    for digit in (1, 10, 100, 1000, 10_000, 100_000):
        for value in range(10):
            some = rest & (numbers // digit % 10 == value)
            assert not some.any() or 0.09 < held[some].mean() < 0.11, (digit, value)
    assert members("hashed")[:5].tolist() == [0, 14, 29, 44, 80]
    assert members("validation")[:5].tolist() == [54, 164, 205, 355, 578]


def test_split_takes_one_number_or_many() -> None:
    assert split(27) == "sevens"
    assert split(400_000) == "thousands"
    assert split(400_007) == "both"
    assert split([[27, 499_999], [499_997, 500_007]]).tolist() == [["sevens", "thousands"], ["both", "sevens"]]


def test_draws_are_fixed_without_repetition_and_of_their_split() -> None:
    drawn = draws("hashed", 5000, seed=3)
    assert len(set(drawn.tolist())) == 5000
    assert (split(drawn) == "hashed").all()
    assert np.array_equal(drawn, draws("hashed", 5000, seed=3))
    assert not np.array_equal(drawn, draws("hashed", 5000, seed=4))
    with pytest.raises(ValueError, match="count=10000 is above 8080, the numbers in the split 'validation'"):
        draws("validation", 10_000)
