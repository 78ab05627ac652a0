"""What a model can be trained to do: go on with a text, fill its gaps, restore it, say its label, or translate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from clearhead.model.transformer import Transformer
from clearhead.train.data.batches import Parts, Shelf
from clearhead.train.data.files import Texts, texts_of
from clearhead.train.recipe import Recipe
from clearhead.train.task_labels import Labelling
from clearhead.train.task_pairs import Translation
from clearhead.train.task_spans import Restoration
from clearhead.train.task_text import Continuation, Filling


class Task(Protocol):
    """Texts that were read, and what a model does with them."""

    recipe: Recipe
    texts: Texts

    def data(self, model: Transformer, folder: Path) -> Parts:
        """In batches for this model; ids are kept in the folder.

        Raises ValueError if the model is of another kind, the texts are too short, or an id is not the model's.
        """
        ...

    def kept(self, model: Transformer, folder: Path) -> tuple[Shelf, int | None]:
        """Of that the part for validation alone, and its bytes (see Parts)."""
        ...

    def samples(self, model: Transformer) -> list[dict[str, str]]:
        """What the model says to the recipe's prompts, or to the beginning of what it has not seen."""
        ...

    def scores(self, model: Transformer) -> dict[str, Any]:
        """What there is to say about the model besides its loss."""
        ...


def task_of(recipe: Recipe, texts: Texts | None = None) -> "Task":
    """The task with its texts, read here unless they are given. Raises ValueError for files that cannot be used."""
    return TASKS[recipe.task](recipe, texts_of(recipe) if texts is None else texts)


TASKS: dict[str, Callable[[Recipe, Texts], Task]] = {
    "lm": Continuation,
    "mlm": Filling,
    "span": Restoration,
    "translate": Translation,
    "classify": Labelling,
}
