"""A model that is to say labels of texts: its stacks as they are, and a new head."""

from collections.abc import Sequence
from dataclasses import replace

from clearhead.config import Dense, TextClassifier, TransformerConfig
from clearhead.families.family import Settings
from clearhead.families.known import family_of
from clearhead.families.load import Home
from clearhead.model.transformer import Transformer
from clearhead.text.tokenizer import Tokenizer

CLASS = "ForSequenceClassification"


def with_labels(model: Transformer, labels: Sequence[str]) -> Transformer:
    """The model with a head for these labels in the place of its own, drawn from torch's global generator.

    Of a model with a home library it is the head of that library's class for this, which `save` then writes. Else an
    encoder whose tokenizer begins each text with a token of its own is asked there, through a dense layer; another
    encoder by the mean of its states, a decoder by the last one. Raises ValueError for a model with two stacks.
    """
    if len(model.config.stacks) != 1:
        raise ValueError("the model is an encoder and a decoder, but labels need one of them; use another model")
    home = _home(model, tuple(labels))
    config = replace(model.config, head=_head(model, tuple(labels))) if home is None else home.config
    found = Transformer(config).to(model.last.table.device)
    own = {name: parameter for name, parameter in model.named_parameters() if not name.startswith("head.")}
    for name, parameter in found.named_parameters():
        parameter.data = own[name].data if name in own else parameter.data.to(model.last.table.dtype)
    found.tokenizer = model.tokenizer
    if home is not None:
        vars(found)["home"] = home
    return found.train(model.training)


def _head(model: Transformer, labels: tuple[str, ...]) -> TextClassifier:
    if model.encoder is None:
        return TextClassifier(labels=labels, pool="last")
    if isinstance(model.tokenizer, Tokenizer) and model.tokenizer.cls is not None:
        return TextClassifier(labels=labels, pool="first", dense=Dense(activation="tanh"))
    return TextClassifier(labels=labels, pool="mean")


def _home(model: Transformer, labels: tuple[str, ...]) -> Home | None:
    """What its home library has for labels of texts, if there is such a class."""
    home = vars(model).get("home")
    if not isinstance(home, Home) or home.config != model.config or home.files:
        return None
    family, _ = family_of(dict(home.content))
    named = next((name for name in family.architectures if name.endswith(CLASS)), None)
    if named is None:
        return None
    numbers = {str(i): label for i, label in enumerate(labels)}
    kept = {key: value for key, value in home.content.items() if key not in ("num_labels", "_num_labels")}
    content = {**kept, "architectures": [named], "problem_type": "single_label_classification"}
    content |= {"id2label": numbers, "label2id": {label: int(i) for i, label in numbers.items()}}
    head = family.config(Settings(content, family.architectures[named], frozenset())).head
    return Home(content, home.generation, _with(model.config, head), "", (), {})


def _with(config: TransformerConfig, head: object) -> TransformerConfig:
    assert isinstance(head, TextClassifier)
    return replace(config, head=head)
