"""Labels of texts: which there are in the data, a model that is to say them, and how well it does."""

from collections import Counter
from collections.abc import Sequence

from clearhead.config import TextClassifier
from clearhead.families.labelling import with_labels
from clearhead.model.transformer import Transformer
from clearhead.train.data.files import Part, Texts

MANY = 1000  # nobody has so many, but another column has


def counted_labels(part: Part) -> Counter[str]:
    """How often each label is there."""
    return Counter(row.texts[1] for row in part)


def for_labels(model: Transformer, texts: Texts) -> Transformer:
    """The model with a head for the labels of these texts: its own, if that has them all, or a new one.

    Raises ValueError for fewer than two labels, and for more than anybody means.
    """
    found = {*counted_labels(texts.train), *counted_labels(texts.validation)}
    if not 2 <= len(found) <= MANY:
        raise ValueError(
            f"the data has {len(found):,} different labels; a classifier needs 2 to {MANY:,}, name another data.label"
        )
    head = model.config.head
    if isinstance(head, TextClassifier) and head.answer == "one" and found <= set(head.labels):
        return model
    return with_labels(model, sorted(found, key=lambda label: (int(label) if label.isdecimal() else 0, label)))


def macro_f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    """The mean of F1 = 2 right / (said + wanted) over all labels that were said or wanted."""
    right = Counter(a for a, b in zip(said, wanted, strict=True) if a == b)
    both = Counter(said) + Counter(wanted)
    return sum(2 * right[label] / count for label, count in both.items()) / len(both)
