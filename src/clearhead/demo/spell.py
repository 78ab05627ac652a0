"""Numbers from 0 to 999,999 in English (British "and"), German, and French (traditional spelling), piece by piece.

The pieces of a number, joined as they are, give its spelling: each carries the blank or hyphen that stands before it.
Each also says which part of the number it names, so that pieces of two languages for one part belong together.
"""

from typing import Literal, NamedTuple

Language = Literal["en", "de", "fr"]
LIMIT = 1_000_000


class Piece(NamedTuple):
    """One piece of a spelled number.

    `part` is the place value that a digit's word counts ("1", "10", "100", "1000" ...; ten to nineteen count as "1"),
    or the scale that a word names ("hundred", "hundred of thousands", "thousand"). It is empty for a connecting word
    ("and"), and where one part takes several pieces ("quatre-vingt").
    """

    text: str
    part: str


def _table(words: str) -> list[str]:
    return words.split()


ENGLISH_SMALL = _table(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
ENGLISH_TENS = _table("- - twenty thirty forty fifty sixty seventy eighty ninety")
GERMAN_SMALL = _table(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
GERMAN_TENS = _table("- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
FRENCH_SMALL = _table("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize")
FRENCH_TENS = _table("- - vingt trente quarante cinquante soixante")


def pieces(n: int, to: Language = "en") -> list[Piece]:
    """n, piece by piece. Raises ValueError for a number that is not in 0..999,999, or for another language."""
    if not 0 <= n < LIMIT:
        raise ValueError(f"n={n} is outside 0..{LIMIT - 1}, the numbers that the demo spells")
    if to not in SPELLERS:
        raise ValueError(f"to={to!r}: the demo spells {', '.join(SPELLERS)}")
    return SPELLERS[to](n)


def spell(n: int, to: Language = "en") -> str:
    """n in words: "three hundred and forty-seven", "dreihundertsiebenundvierzig", "trois cent quarante-sept"."""
    return "".join(piece.text for piece in pieces(n, to))


def english(n: int) -> list[Piece]:
    """three| hundred| and| forty|-seven. A last part below a hundred follows "and": one thousand and one."""
    if n == 0:
        return [Piece("zero", "1")]
    thousands, rest = divmod(n, 1000)
    out = _english_group(thousands, 1000)
    if thousands:
        out.append(Piece(" thousand", "thousand"))
    if thousands and 0 < rest < 100:
        out.append(Piece(" and", ""))
    return _start(out + _english_group(rest, 1))


def _english_group(n: int, scale: int) -> list[Piece]:
    """Three digits; nothing for 0."""
    hundreds, rest = divmod(n, 100)
    tens, units = (0, rest) if rest < 20 else divmod(rest, 10)
    out: list[Piece] = []
    if hundreds:
        out += [Piece(f" {ENGLISH_SMALL[hundreds]}", f"{100 * scale}"), Piece(" hundred", _hundred(scale))]
    if hundreds and rest:
        out.append(Piece(" and", ""))
    if tens:
        out.append(Piece(f" {ENGLISH_TENS[tens]}", f"{10 * scale}"))
    if units:
        out.append(Piece(f"{'-' if tens else ' '}{ENGLISH_SMALL[units]}", f"{scale}"))
    return out


def german(n: int) -> list[Piece]:
    """drei|hundert|sieben|und|vierzig: units before tens, one word. "ein" is "eins" where it ends the number."""
    if n == 0:
        return [Piece("null", "1")]
    thousands, rest = divmod(n, 1000)
    out = _german_group(thousands, 1000)
    if thousands:
        out.append(Piece("tausend", "thousand"))
    out += _german_group(rest, 1)
    return [*out[:-1], Piece("eins", "1")] if n % 100 == 1 else out


def _german_group(n: int, scale: int) -> list[Piece]:
    hundreds, rest = divmod(n, 100)
    tens, units = (0, rest) if rest < 20 else divmod(rest, 10)
    out: list[Piece] = []
    if hundreds:
        out += [Piece(GERMAN_SMALL[hundreds], f"{100 * scale}"), Piece("hundert", _hundred(scale))]
    if units:
        out.append(Piece(GERMAN_SMALL[units], f"{scale}"))
    if units and tens:
        out.append(Piece("und", ""))
    if tens:
        out.append(Piece(GERMAN_TENS[tens], f"{10 * scale}"))
    return out


def french(n: int) -> list[Piece]:
    """trois| cent| quarante|-sept. No "un" before cent and mille; cents and quatre-vingts only where they end n."""
    if n == 0:
        return [Piece("zéro", "1")]
    thousands, rest = divmod(n, 1000)
    out = _french_group(thousands, 1000) if thousands > 1 else []
    if thousands:
        out.append(Piece(" mille", "thousand"))
    out += _french_group(rest, 1)
    ends_in_s = rest % 100 == 80 or (rest >= 200 and rest % 100 == 0)
    return _start([*out[:-1], Piece(out[-1].text + "s", out[-1].part)] if ends_in_s else out)


def _french_group(n: int, scale: int) -> list[Piece]:
    hundreds, rest = divmod(n, 100)
    out = [Piece(f" {FRENCH_SMALL[hundreds]}", f"{100 * scale}")] if hundreds > 1 else []
    if hundreds:
        out.append(Piece(" cent", _hundred(scale)))
    return out + _french_below_100(rest, scale)


def _french_below_100(n: int, scale: int) -> list[Piece]:
    """Twenties to sixties count by ten; 70 is soixante-dix, 80 quatre-vingt, 90 quatre-vingt-dix."""
    if n >= 80:
        out, over = [Piece(" quatre", ""), Piece("-vingt", "")], n - 80
    elif n >= 20:
        tens = min(n // 10, 6)
        out, over = [Piece(f" {FRENCH_TENS[tens]}", f"{10 * scale}" if n < 70 else "")], n - 10 * tens
    else:
        out, over = [], n
    if 20 <= n < 80 and over in (1, 11):
        out.append(Piece(" et", ""))
    joint = "-" if n > 20 and out[-1].text != " et" else " "
    if over >= 17:
        return [*out, Piece(f"{joint}dix", ""), Piece(f"-{FRENCH_SMALL[over - 10]}", f"{scale}" if n > 20 else "")]
    if over:
        out.append(Piece(f"{joint}{FRENCH_SMALL[over]}", f"{scale}" if over < 10 or n < 17 else ""))
    return out


def _hundred(scale: int) -> str:
    return "hundred" if scale == 1 else "hundred of thousands"


def _start(out: list[Piece]) -> list[Piece]:
    """Without the blank before the first piece."""
    return [Piece(out[0].text.lstrip(), out[0].part), *out[1:]]


SPELLERS = {"en": english, "de": german, "fr": french}
