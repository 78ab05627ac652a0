"""Texts to ids, some thousand at a time, with what a model needs around them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clearhead.config import TransformerConfig
from clearhead.text.language import Languages, languages
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from clearhead.train.data.files import Part
from clearhead.train.data.ids import Ids, Stored, in_groups, key_of, store, stored
from clearhead.train.recipe import Source


@dataclass(frozen=True)
class ReadText:
    """Texts for a model with one stack: what goes in front of a document, and what behind it."""

    tokenizer: Tokenizer | Pair
    before: int | None
    behind: int | None

    names = ("ids",)

    @property
    def options(self) -> tuple[object, ...]:
        """What the ids depend on besides."""
        return self.before, self.behind

    def __call__(self, part: Part) -> Iterator[Stored]:
        """Texts without a character are left out."""
        at = part.number
        for group in in_groups(part):
            kept = [i for i, row in enumerate(group) if row.texts[0].strip() or part.rows.running]
            numbers = None if part.rows.running else [at + i + 1 for i in kept]
            rows = _encoded(self.tokenizer, [group[i].texts[0] for i in kept], numbers, add_special_tokens=False)
            sizes = [len(group[i].texts[0].encode()) for i in kept]
            for n, i in enumerate(kept):
                if group[i].begins and self.before is not None:
                    rows[n].insert(0, self.before)
                if group[i].ends and self.behind is not None:
                    rows[n].append(self.behind)
                    sizes[n] += 1
            begins = np.array([group[i].begins for i in kept], dtype=np.bool_)
            yield Stored({"ids": Ids.of(rows)}, begins, np.array(sizes, dtype=np.int64))
            at += len(group)


class Spoken(NamedTuple):
    """One language of a tokenizer that has several."""

    known: Languages
    token: int

    def written(self, ids: list[int]) -> list[int]:
        """What the decoder writes: a language in front of a text is part of it, one behind is what it starts from."""
        return ids[:-1] if self.known.last else self.known.placed(ids, self.token)


def _spoken(tokenizer: Tokenizer, name: str, code: str | None, own: bool) -> Spoken | None:
    """own: without a code it is the tokenizer's own."""
    known = languages(tokenizer)
    if known is None:
        if code is not None:
            raise ValueError(f"data.{name} is {code!r}, but the tokenizer knows no languages; leave it out")
        return None
    if code is None and not own:
        raise ValueError(f"data.{name} is null, but the tokenizer has {len(known.ids)} languages; name one of them")
    return Spoken(known, known.chosen(f"data.{name}", known.own if code is None else code))


@dataclass(frozen=True)
class ReadPairs:
    """Sources, and targets that end in eos and do not begin with what the decoder is fed first."""

    tokenizer: Tokenizer | Pair
    config: TransformerConfig
    asked: Source  # longest: pairs with more tokens on a side are left out

    names = ("sources", "targets")

    @property
    def options(self) -> tuple[object, ...]:
        """What the ids depend on besides."""
        return self.config.first, self.asked.longest, self.asked.src_lang, self.asked.tgt_lang

    @property
    def languages(self) -> tuple[Spoken | None, Spoken | None]:
        """Those of the sources and the targets; None where the tokenizer has only one.

        Raises ValueError where it has several and nobody says which the targets are in.
        """
        both = (self.tokenizer.source, self.tokenizer.target) if isinstance(self.tokenizer, Pair) else None
        source, target = both or (self.tokenizer, self.tokenizer)
        assert isinstance(source, Tokenizer)
        assert isinstance(target, Tokenizer)
        return (
            _spoken(source, "src_lang", self.asked.src_lang, True),
            _spoken(target, "tgt_lang", self.asked.tgt_lang, both is not None),
        )

    @property
    def start(self) -> int | None:
        """What the decoder is fed first, where that is the targets' language, which stands behind other texts."""
        target = self.languages[1]
        return target.token if target is not None and target.known.last else None

    def __call__(self, part: Part) -> Iterator[Stored]:
        """Raises ValueError for a text longer than the model's positions, naming its line."""
        first, eos, at, longest = self.config.first, self.tokenizer.eos, part.number, self.asked.longest
        limits = [None if s.positions is None else s.positions.count for s in self.config.stacks.values()]
        source, target = self.languages
        for group in in_groups(part):
            numbers = [at + i + 1 for i in range(len(group))]
            read = _encoded(self.tokenizer, [row.texts[0] for row in group], numbers)
            written = _encoded(self.tokenizer, [row.texts[1] for row in group], numbers, target=True)
            read = read if source is None else [source.known.placed(row, source.token) for row in read]
            written = written if target is None else [target.written(row) for row in written]
            written = [row[1:] if row[0] == first else row for row in written]
            written = [row if eos is None or row[-1:] == [eos] else [*row, eos] for row in written]
            kept = [
                i
                for i, both in enumerate(zip(read, written, strict=True))
                if longest is None or max(map(len, both)) <= longest
            ]
            for rows, limit in zip((read, written), limits, strict=True):
                for i in kept:
                    if limit is not None and len(rows[i]) > limit:
                        raise ValueError(
                            f"line {at + i + 1} has {len(rows[i])} tokens, but the model has {limit} positions; "
                            f"shorten it, or set data.longest to {limit}"
                        )
            sizes = np.array([len(group[i].texts[1].encode()) + 1 for i in kept], dtype=np.int64)
            columns = {"sources": Ids.of([read[i] for i in kept]), "targets": Ids.of([written[i] for i in kept])}
            yield Stored(columns, np.ones(len(kept), dtype=np.bool_), sizes)
            at += len(group)


@dataclass(frozen=True)
class ReadLabels:
    """Texts as the model's tokenizer writes them, and the numbers of their labels."""

    tokenizer: Tokenizer | Pair
    config: TransformerConfig
    asked: Source  # longest: texts with more tokens are left out
    labels: tuple[str, ...]

    names = ("texts", "labels")

    @property
    def options(self) -> tuple[object, ...]:
        """What the ids depend on besides."""
        return self.asked.text, self.asked.label, self.asked.longest, self.labels

    @property
    def pad(self) -> int:
        """What fills rows up; the mask hides it."""
        return self.config.pad or self.tokenizer.pad or 0

    def __call__(self, part: Part) -> Iterator[Stored]:
        """Raises ValueError for a text longer than the model's positions, and for a label that it does not know."""
        at, longest, numbers = part.number, self.asked.longest, {label: i for i, label in enumerate(self.labels)}
        (stack,) = self.config.stacks.values()
        limit = None if stack.positions is None else stack.positions.count
        for group in in_groups(part):
            rows = _encoded(self.tokenizer, [row.texts[0] for row in group], [at + i + 1 for i in range(len(group))])
            kept = [i for i, row in enumerate(rows) if row and (longest is None or len(row) <= longest)]
            for i in kept:
                if limit is not None and len(rows[i]) > limit:
                    raise ValueError(
                        f"line {at + i + 1} has {len(rows[i])} tokens, but the model has {limit} positions; "
                        f"shorten it, or set data.longest to {limit}"
                    )
                if group[i].texts[1] not in numbers:
                    raise ValueError(
                        f"line {at + i + 1} has the label {group[i].texts[1]!r}, which the model does not know"
                    )
            columns = {"texts": Ids.of([rows[i] for i in kept])}
            columns["labels"] = Ids.of([[numbers[group[i].texts[1]]] for i in kept])
            sizes = np.array([len(group[i].texts[0].encode()) for i in kept], dtype=np.int64)
            yield Stored(columns, np.ones(len(kept), dtype=np.bool_), sizes)
            at += len(group)


Reading = ReadText | ReadPairs | ReadLabels


def cached(read: Reading, part: Part, folder: Path, vocab: dict[str, int]) -> Stored:
    """The ids of a part, made when they are first asked for and from then on read from the folder.

    vocab: how many ids the model has, by column. Raises ValueError for ids beyond.
    """
    said = (part.rows.digest, part.start, part.stop, read.names, read.options)
    file = folder / f"{key_of(read.tokenizer, *said)}.arrow"
    if not file.exists():
        store(read(part), read.names, file)
    found = stored(file, read.names)
    for name, ids in found.columns.items():
        if ids.largest >= vocab[name]:
            raise ValueError(
                f"the data holds the id {ids.largest}, but the model has {vocab[name]}, from 0; its tokenizer does "
                "not belong to it"
            )
    return found


def _encoded(
    tokenizer: Tokenizer | Pair,
    texts: list[str],
    numbers: list[int] | None,
    target: bool = False,
    add_special_tokens: bool = True,
) -> list[list[int]]:
    """Ids. numbers: the texts', by which one that the tokenizer cannot read is named."""
    try:
        return tokenizer.encode_batch(texts, target=target, add_special_tokens=add_special_tokens)
    except ValueError:
        for number, text in zip(numbers or (), texts, strict=False):
            try:
                tokenizer.encode(text, target=target, add_special_tokens=add_special_tokens)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
        raise
