"""The demo's task: English number words to German or French ones, with a known source word for each target piece.

What is held out, and why: numbers that end in 7 and thousands from 400 to 499, never seen in training, ask whether the
model recombines what it knows; a hashed tenth of the rest asks whether it knows unseen numbers at all; and a hashed
hundredth serves to choose on (which head shows the alignment), so that no test number takes part in a choice.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clearhead.demo.spell import LIMIT, Language, pieces
from clearhead.text.build import piece_tokenizer, word_tokenizer
from clearhead.text.pair import Pair

Split = Literal["train", "validation", "hashed", "sevens", "thousands"]
SAMPLE = (*range(2000), *range(2000, LIMIT, 1000))  # between them they use every piece of every language


def words(n: int) -> list[str]:
    """The English source words: a hyphen separates words as a blank does."""
    return [piece.text.strip(" -") for piece in pieces(n, "en")]


def gold(n: int, to: Language = "de") -> list[int | None]:
    """For each target piece of n the index of the one English word that it stands for; None where there is none.

    347: drei 0, hundert 1, sieben 4, und None, vierzig 3. The units stand before the tens in German, so the order
    crosses. French pieces that share an English word (quatre-vingt: eighty) or two (onze: seventy-one) have None.
    """
    index = {piece.part: i for i, piece in enumerate(pieces(n, "en")) if piece.part}
    return [index.get(piece.part) for piece in pieces(n, to)]


def tokenizer(to: Language = "de") -> Pair:
    """English words, ended by eos, to pieces of the target language, between bos and eos."""
    source = word_tokenizer((" ".join(words(n)) for n in SAMPLE), r"[\s-]+", eos=True)
    target = sorted({piece.text for n in SAMPLE for piece in pieces(n, to)})
    return Pair(source, piece_tokenizer(target, bos=True, eos=True))


def split(numbers: ArrayLike) -> NDArray[np.str_]:
    """The split of each number, in the shape of `numbers`: one of `Split`, or "both" for 10,000 numbers that end in 7
    and have thousands from 400 to 499; those are neither trained on nor tested.
    """
    n = np.asarray(numbers, dtype=np.int64)
    mixed = ((n * 0x9E3779B1 & 0xFFFFFFFF) >> 7) ^ n  # the high bits of a product depend on all bits of n
    percent = ((mixed * 0x45D9F3B & 0xFFFFFFFF) * 100) >> 32  # 0..99, the same on every machine
    seven, thousand = n % 10 == 7, n // 100_000 == 4
    names = {"both": seven & thousand, "sevens": seven, "thousands": thousand}
    names |= {"hashed": percent < 10, "validation": percent == 10}
    return np.select(list(names.values()), list(names), "train")


def members(of: Split) -> NDArray[np.int64]:
    """All numbers of a split, in order."""
    numbers = np.arange(LIMIT)
    return numbers[split(numbers) == of]


def draws(of: Split, count: int, seed: int = 0) -> NDArray[np.int64]:
    """`count` different numbers of a split, the same for the same seed. Raises ValueError for more than there are."""
    numbers = members(of)
    if count > len(numbers):
        raise ValueError(f"count={count} is above {len(numbers)}, the numbers in the split {of!r}")
    return np.random.default_rng(seed).choice(numbers, count, replace=False)


def bag_ceiling(limit: int = LIMIT) -> float:
    """The largest share of the numbers below `limit` that a reader without word order can get right.

    Numbers with the same words in another order are one input to it ("forty thousand and one", "one thousand and
    forty"), so it gets at most one of them right: the share is that of distinct bags of words.
    """
    every = [words(n) for n in SAMPLE]
    base = {word: 8**i for i, word in enumerate(sorted({word for row in every for word in row}))}  # no word 8 times

    def bag(row: list[str]) -> int:
        return sum(base[word] for word in row)

    below = [bag(row) for row in every[:1000]]
    after = [bag(row[2:]) for row in every[1000:2000]]  # what follows "one thousand"
    heads = [bag(every[1000]), *(bag(row) for row in every[2000:])]  # whole thousands
    bags = {heads[n // 1000 - 1] + after[n % 1000] if n >= 1000 else below[n] for n in range(limit)}
    return len(bags) / limit
