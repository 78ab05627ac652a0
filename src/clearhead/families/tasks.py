"""The classes that home libraries build on a family: what each has on top of the stacks, and under which names."""

from collections.abc import Iterable
from typing import Any, Literal

from clearhead.config import (
    Activation,
    AnswerSpan,
    Dense,
    Head,
    Pool,
    TextClassifier,
    TextEmbedding,
    TokenClassifier,
)
from clearhead.families.family import BARE, LANGUAGE, Family, Settings, Task
from clearhead.families.moves import Rename

ANSWERS: dict[str, Literal["one", "any", "number"]] = {
    "single_label_classification": "one",
    "multi_label_classification": "any",
    "regression": "number",
}


def text_classifier(out: str, pool: Pool, dense: str = "", activation: Activation = "tanh", bias: bool = True) -> Task:
    """Labels of texts. out, dense: the modules' names; `activation` comes after the latter, if there is one."""
    between = Dense(activation=activation) if dense else None

    def head(s: Settings, language: Head) -> TextClassifier:
        return TextClassifier(labels=labels(s), pool=pool, dense=between, bias=bias, answer=answer(s))

    return Task(head, moves(out, dense))


def token_classifier(out: str = "classifier") -> Task:
    """Labels of tokens."""
    return Task(lambda s, language: TokenClassifier(labels=labels(s)), moves(out))


def answer_span(out: str = "qa_outputs") -> Task:
    """Where the answer to a question starts and ends."""
    return Task(lambda s, language: AnswerSpan(), moves(out))


def pooler(dense: str) -> Task:
    """One vector for a text, made of its first state, if the file has the layer for it (the home library's choice)."""

    def head(s: Settings, language: Head) -> TextEmbedding | None:
        bare = dense.split(".", 1)[1]  # files of this class leave the family's prefix out
        there = any(f"{name}.weight" in s.tensors for name in (dense, bare))
        return TextEmbedding(pool="first", dense=Dense(activation="tanh")) if there else None

    return Task(head, moves("", dense))


def decoders(name: str, tokens: bool = True) -> dict[str, Task]:
    """The classes of a decoder in today's common layout; some have none for the labels of tokens."""
    return {
        f"{name}ForCausalLM": LANGUAGE,
        f"{name}Model": BARE,
        f"{name}ForSequenceClassification": text_classifier("score", "not_pad", bias=False),
        **({f"{name}ForTokenClassification": token_classifier("score")} if tokens else {}),
    }


def misplaced(family: Family, named: str, language: Iterable[Rename], planned: set[str], found: Iterable[str]) -> str:
    """Which tensors show that the file was made by another class than `named`; "" if none do.

    language: the moves of the language models' head. planned, found: the tensors of the class, and of the file.
    """
    heads = {name: (*language,) if task is LANGUAGE else task.moves for name, task in family.architectures.items()}

    def of(name: str, tensors: set[str]) -> set[str]:
        modules = {move.theirs.removeprefix(family.prefix) for move in heads[name]}
        return {full for full in tensors if {full, full.rsplit(".", 1)[0].removeprefix(family.prefix)} & modules}

    odd, lacking = set(found) - planned, of(named, planned - set(found))
    owners = [name for name in heads if of(name, odd)]
    said = [f"{min(lacking)} of its head is not there"] if lacking else []
    if owners and named not in owners:
        said.append(f"{min(of(owners[0], odd))} is of the head of {' or '.join(owners)}")
    return f"; config.json names the architecture {named}, but {' and '.join(said)}" if said else ""


def moves(out: str, dense: str = "", norm: str = "") -> tuple[Rename, ...]:
    """Where the tensors of these heads are; "" = there is none."""
    named = {out: "head.out", dense: "head.dense.linear", norm: "head.dense.norm"}
    return tuple(Rename(theirs, ours) for theirs, ours in named.items() if theirs)


def labels(s: Settings) -> tuple[str, ...]:
    """The names of the labels, in order; LABEL_0 ... where the file has none, two where it does not even say how many.

    Raises ValueError if their numbers are not 0, 1, 2 ...
    """
    named: dict[str, Any] = s.get("id2label", {})
    if not named:
        return tuple(f"LABEL_{i}" for i in range(s.get("num_labels", 2)))
    if {*named} != {str(i) for i in range(len(named))}:
        raise ValueError(f"config.json numbers its labels {', '.join(named)}; expected 0 to {len(named) - 1}")
    return tuple(str(named[str(i)]) for i in range(len(named)))


def answer(s: Settings) -> Literal["one", "any", "number"]:
    """What a classifier of texts was trained to say; a single label means a number."""
    kind = s.get("problem_type", "regression" if len(labels(s)) == 1 else "single_label_classification")
    if kind not in ANSWERS:
        raise ValueError(f"config.json sets problem_type to {kind!r}; known are {', '.join(ANSWERS)}")
    return ANSWERS[kind]


# Labels of texts on a decoder that reads them again.
READER = text_classifier("classification_head.out_proj", "eos", dense="classification_head.dense")
