"""A recipe: everything that a training run is asked to do, as plain data that is read from YAML and saved with the run.

Each field says in its own line what it does; `clearhead train run --help` prints them all.
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from clearhead.fields import build
from clearhead.train.problems import problems

T = TypeVar("T")
FILE = "recipe.yaml"


def _is(default: T, text: str, free: bool = False) -> T:
    """A field with its default and what it does. free: may be another when a run is gone on with."""
    return field(default=default, metadata={"text": text, "free": free})


@dataclass(frozen=True, kw_only=True)
class Source:
    """The texts: files, by their suffix, or a data set of the hub."""

    train: tuple[str, ...] = _is((), "files (.txt, .tsv, .csv, .jsonl, .parquet, each also .gz), or owner/name", True)
    validation: tuple[str, ...] = _is((), "the same for validation; none: the last 5 % of train, not trained on", True)
    text: str = _is("text", "column of the texts (lm, mlm, span, classify)")
    label: str | None = _is(None, "column of their labels (classify); null: label")
    source: str | None = _is(None, "column to translate from, such as translation.en; null: the first of two")
    target: str | None = _is(None, "column to translate to; null: the second of two")
    src_lang: str | None = _is(None, "language of the sources, such as en_XX, where the tokenizer has several")
    tgt_lang: str | None = _is(None, "language of the targets, likewise")
    subset: str | None = _is(None, "configuration of a data set of the hub")
    split: str = _is("train", "split of a data set of the hub to train on")
    validation_split: str | None = _is(None, "split of a data set of the hub to validate on")
    stream: bool = _is(False, "read while training, nothing stored; needs steps")
    longest: int | None = _is(None, "leave out pairs with more tokens on a side; null: they are an error")
    cache: str | None = _is(None, "folder for the texts as ids, which runs may share; null: in the run's own", True)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokenizer of a new model; one that is started from brings its own."""

    kind: Literal["auto", "byte", "char", "word", "bpe", "unigram"] = _is(
        "auto", "auto: bpe, but char for an lm of less than 2 million characters"
    )
    size: int | None = _is(None, "tokens of bpe and unigram; null: by the size of the data, 512 to 8,000")
    start: str | None = _is(None, "take the one of this model instead: a folder, a run, a name on the hub")
    shared: bool = _is(False, "one tokenizer and one table for both languages")


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Small matrices that are trained in the place of the model (Hu et al. 2021; see lora.py)."""

    rank: int = _is(0, "train two small matrices of this rank beside each target, nothing else; 0: train the model")
    alpha: float | None = _is(None, "what they add counts alpha / rank times; null: twice")
    dropout: float = _is(0.0, "share of the numbers that come into them left out in training")
    targets: tuple[str, ...] = _is(
        ("*attention.q.weight", "*attention.v.weight"), "matrices that get them (see clearhead describe)"
    )

    @property
    def strength(self) -> float:
        """Alpha."""
        return 2.0 * self.rank if self.alpha is None else self.alpha


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is trained."""

    start: str | None = _is(None, "model to start from: a folder, a run, a name on the hub; null: a new one")
    config: str | None = _is(None, "config.json of a new model; its vocabulary and special ids follow the tokenizer")
    dim: int | None = _is(None, "width of a new model; null: by the size of the data")
    layers: int | None = _is(None, "layers of each stack of a new model; null: 6, an encoder 4, of two stacks 3")
    dropout: float | None = _is(None, "share of numbers left out in training; null: as the model has it")
    freeze: tuple[str, ...] = _is((), "parameters that stay as they are, such as encoder.* (see clearhead describe)")
    lora: Lora = field(default_factory=Lora)


@dataclass(frozen=True, kw_only=True)
class Batches:
    """How texts come together."""

    tokens: int | None = _is(
        None, "tokens per batch, padding included; null: 1,024; 4,096 of much text, 2,048 of many pairs"
    )
    block: int | None = _is(None, "tokens of a row of text; null: 64, of a large text 256, or what the model can")
    pack: bool = _is(False, "documents side by side in a row; they do not see each other, and positions start again")
    accumulate: int = _is(1, "batches per step")


@dataclass(frozen=True, kw_only=True)
class Moving:
    """What moves the parameters."""

    adamw: float | None = _is(None, "peak rate of AdamW; null: 0.002, with model.start 0.0002, to classify 0.00005")
    muon: float | None = _is(None, "peak rate of Muon for matrices; 0: AdamW; null: 0.02, with model.start 0")
    decay: float = _is(0.1, "weight decay of matrices and tables")
    beta1: float = _is(0.9, "memory of AdamW for gradients")
    beta2: float = _is(0.98, "memory of AdamW for their squares")
    clip: float = _is(1.0, "largest norm of all gradients together")


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The learning rate over the steps, as a share of its peak."""

    kind: Literal["cosine", "inverse_sqrt", "wsd"] = _is("cosine", "wsd: warm up, stay, and go down at the end")
    warmup: int | None = _is(None, "steps on the way up; null: a tenth of all")
    decay: int | None = _is(None, "steps on the way down (wsd); null: a fifth of all")
    floor: float = _is(0.02, "share of the peak at the last step (cosine, wsd)")


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Checkpoints."""

    every: int = _is(100, "steps between two checkpoints", True)
    keep: int = _is(1, "how many of the last to keep", True)
    keep_best: bool = _is(False, "keep the best by validation loss too, and give its model at the end", True)
    average: int = _is(0, "give the mean of the weights of the last so many at the end; 0: the last", True)
    ema: float = _is(0.0, "give the moving average of the weights, which keeps this share each step; 0: the last")


@dataclass(frozen=True, kw_only=True)
class Watching:
    """What is looked at while it trains."""

    evaluate_every: int = _is(0, "steps between two validations; 0: at the end only")
    patience: int = _is(0, "stop after so many validations without a better loss; 0: never")
    sample_every: int = _is(0, "steps between two samples; 0: at the end only", True)
    prompts: tuple[str, ...] = _is(
        (), "what to go on with, translate or fill in as a sample; none: from validation", True
    )
    probes: tuple[str, ...] = _is((), "sentences in which it is recorded where each head looks", True)
    probe_steps: tuple[int, ...] = _is((), "the steps at which that is done", True)
    tensorboard: bool = _is(False, "write curves for TensorBoard too", True)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Raises ValueError for numbers that mean nothing, naming the field, the number and the fix."""

    task: Literal["lm", "translate", "mlm", "span", "classify"] = _is(
        "lm", "go on with a text, translate, fill gaps, restore hidden spans, or say labels of texts"
    )
    data: Source = field(default_factory=Source)
    tokenizer: Vocabulary = field(default_factory=Vocabulary)
    model: Model = field(default_factory=Model)
    batch: Batches = field(default_factory=Batches)
    optimizer: Moving = field(default_factory=Moving)
    schedule: Rate = field(default_factory=Rate)
    save: Saving = field(default_factory=Saving)
    watch: Watching = field(default_factory=Watching)
    steps: int | None = _is(None, "null: 20 times through the data, but 200 to 5,000")
    smoothing: float = _is(0.0, "share of the target that goes to the other tokens")
    seed: int = _is(0, "of weights, order and gaps")
    device: str = _is("cpu", "cpu, cuda or mps", True)
    dtype: Literal["float32", "bfloat16"] = _is("float32", "what a step computes in; weights stay float32 in files")
    compile: bool = _is(False, "compile the model: half a minute first, then faster steps")
    checkpoint_activations: bool = _is(False, "compute each layer again on the way back, to save memory")
    spread: Literal["auto", "ddp", "fsdp"] = _is("auto", "over several processes: whole copies, or shards", True)

    def __post_init__(self) -> None:
        for problem in problems(self):
            raise ValueError(f"recipe.{problem}")


def read_recipe(path: Path) -> Recipe:
    """The recipe in a YAML file. Raises ValueError naming the field, what stands there and what is expected."""
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML 1.1 takes 1e-3 for a string; everybody who writes it means the number."""

    number = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    try:
        plain = yaml.load(path.read_text(encoding="utf-8"), Loader)  # a SafeLoader
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; give a recipe in YAML") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return recipe_of(plain)


def recipe_of(plain: object) -> Recipe:
    """A recipe from plain data. Raises ValueError as `read_recipe` does.

    One word stands for a list of one, and `optimizer.adamw` for the field of that name within `optimizer`.
    """
    if not isinstance(plain, dict):
        raise ValueError(f"recipe is {plain!r}; write fields such as `task: lm`; they are listed in train run --help")
    try:
        return build(Recipe, _listed(Recipe, _nested(cast(dict[str, Any], plain))), "recipe")
    except ValueError as error:
        raise ValueError(str(error).replace("expected tuple", "expected a list")) from error


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Every field, defaults too, so that the file means the same when defaults have changed."""
    import yaml

    path.write_text(yaml.safe_dump(_plain(recipe), sort_keys=False, allow_unicode=True), encoding="utf-8")


def fixed(recipe: Recipe) -> dict[str, Any]:
    """By name, what must stay the same for a run to be gone on with."""
    return {name: _plain(value) for name, value, one in fields(recipe) if not one.metadata["free"]}


def fields(form: Any, place: str = "") -> Iterator[tuple[str, Any, "dataclasses.Field[Any]"]]:
    """Every field by its full name, such as batch.tokens, with its value."""
    for one in dataclasses.fields(form):
        value = getattr(form, one.name)
        if dataclasses.is_dataclass(value):
            yield from fields(value, f"{place}{one.name}.")
        else:
            yield f"{place}{one.name}", value, one


def explained() -> str:
    """All fields with their defaults, one a line: what `clearhead train run --help` shows."""
    lines = [(name, _written(value), one.metadata["text"]) for name, value, one in fields(Recipe())]
    width = max(len(name) + len(value) for name, value, _ in lines) + 2
    return "\n".join("  " + f"{name}: {value}".ljust(width + 1) + f"# {text}" for name, value, text in lines)


def _written(value: object) -> str:
    words = {None: "null", True: "true", False: "false", (): "[]"}
    return next((word for known, word in words.items() if known is value or known == value == ()), str(value))


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as YAML and JSON know them."""
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return [_plain(item) for item in cast(tuple[Any, ...], value)] if isinstance(value, tuple) else value


def _nested(plain: dict[str, Any]) -> dict[str, Any]:
    """Names with a dot, each in its part."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        part, dot, field_name = str(name).partition(".")
        if not dot:
            found[part] = {**found[part], **value} if part in found and isinstance(value, dict) else value
        elif isinstance(found.setdefault(part, {}), dict):
            found[part] = {**found[part], field_name: value}
    return {name: _nested(value) if isinstance(value, dict) else value for name, value in found.items()}


def _listed(cls: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """A single value where a list is expected becomes a list."""
    hints, found = get_type_hints(cls), {str(name): value for name, value in plain.items()}
    for name, value in plain.items():
        hint = hints.get(name)
        if dataclasses.is_dataclass(hint) and isinstance(value, dict):
            found[name] = _listed(hint, cast(dict[str, Any], value))
        elif get_origin(hint) is tuple and isinstance(value, get_args(hint)[0]):
            found[name] = [value]
    return found
