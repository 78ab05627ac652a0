"""What a family of models is: how its config.json is read, and where its tensors go."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clearhead.config import Activation, AnyHead, Head, TransformerConfig
from clearhead.families.moves import Placed, Rename, plan

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Keys that change no logit: book-keeping, training, and what other libraries' `generate` does by default.
COMMON = words(
    """
    _name_or_path architectures model_type transformers_version dtype torch_dtype use_cache return_dict
    output_attentions output_hidden_states output_past chunk_size_feed_forward gradient_checkpointing is_encoder_decoder
    id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params prefix tokenizer_class
    classifier_dropout classif_dropout initializer_range initializer_factor init_std attn_implementation
    transformers.js_config _attn_implementation _attn_implementation_autoset cache_implementation
    max_length min_length num_beams num_beam_groups diversity_penalty length_penalty early_stopping do_sample
    temperature top_k top_p typical_p repetition_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
    num_return_sequences return_dict_in_generate output_scores forced_bos_token_id forced_eos_token_id
    begin_suppress_tokens suppress_tokens remove_invalid_values exponential_decay_length_penalty sep_token_id
    torchscript use_bfloat16 tf_legacy_loss xla_device cross_attention_hidden_size eos_token_ids
    """
)
# Keys of every family's older files, of which only this value can be run.
COUNTS = ("layers", "n_layer", "num_labels")  # what is made as often as such a setting says
MOST = 10_000
FIXED: dict[str, Any] = {
    "is_decoder": False,  # true only where a class is used as part of another model
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "pruned_heads": {},
}


class Settings:
    """config.json as its family reads it, with a note of what was asked for: the rest is an error at the end."""

    def __init__(self, content: Mapping[str, Any], task: "Task", tensors: frozenset[str]) -> None:
        self.tensors = tensors  # the names in the file
        self.task = task
        self._content = content
        self._asked: set[str] = set()
        self._parts: dict[str, Settings] = {}

    def __getitem__(self, key: str) -> Any:
        """A setting that must be there."""
        if (value := self._value(key)) is None:
            raise ValueError(f"config.json has no {key}, which this family needs")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """A setting, or the family's default where it is missing or null."""
        value = self._value(key)
        return default if value is None else value

    def optional(self, key: str, default: Any) -> Any:
        """A setting of which null means "without it", and a missing one the family's default."""
        return self._value(key, default)

    def part(self, key: str, **defaults: Any) -> "Settings":
        """The settings inside of one that must be there, such as text_config. Special tokens outside of it win."""
        ids = {name: self.get(name) for name in self._content if name.endswith("_token_id")}
        ids = {name: value for name, value in ids.items() if value is not None}
        self._parts[key] = Settings({**defaults, **self[key], **ids}, self.task, self.tensors)
        return self._parts[key]

    def activation(self, key: str, default: str) -> Activation:
        """Raises ValueError, listing the known ones, for an activation that no formula has."""
        name = self.get(key, default)
        if name not in ACTIVATIONS:
            raise ValueError(f"config.json sets {key} to {name!r}; known are {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[name]

    def head(self, language: Head) -> AnyHead | None:
        """The head of the class that config.json names; `language`: that of the family's language models."""
        return self.task.head(self, language)

    def ids(self) -> dict[str, Any]:
        """Special tokens, under our names. A negative id is how some files write "none"."""
        eos = self.get("eos_token_id")
        found = {"pad": self.get("pad_token_id"), "bos": self.get("bos_token_id")}
        found["start"] = self.get("decoder_start_token_id")
        kept = {name: i for name, i in found.items() if i is not None and i >= 0}
        return {**kept, "eos": tuple(eos) if isinstance(eos, list) else eos}

    def _value(self, key: str, default: Any = None) -> Any:
        """ValueError for a number that is written as text, and for more layers or labels than a file can hold."""
        self._asked.add(key)
        value = self._content.get(key, default)
        if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\.?\d.*", value):
            raise ValueError(f"config.json sets {key} to the text {value!r}; write the number without quotes")
        if key.endswith(COUNTS) and isinstance(value, int) and value > max(MOST, len(self.tensors)):
            raise ValueError(f"config.json sets {key} to {value}, but the file has {len(self.tensors)} tensors")
        return value

    def unread(self, known: frozenset[str], fixed: Mapping[str, Any]) -> list[str]:
        """What is set and would change the model, but has been asked for by nobody: "key=value", sorted."""
        unknown = [k for k, v in self._content.items() if k not in self._asked | known | set(fixed) and v is not None]
        other = [k for k, v in fixed.items() if self._content.get(k) not in (None, v)]
        inside = [f"{key}.{item}" for key, part in self._parts.items() for item in part.unread(known, fixed)]
        return sorted([*inside, *(f"{key}={self._content[key]!r}" for key in {*unknown, *other})])


@dataclass(frozen=True)
class Task:
    """What one class of the home library puts on top of the stacks (see tasks.py)."""

    head: Callable[[Settings, Head], AnyHead | None]  # from the settings, and the head of the language models
    moves: tuple[Rename, ...] = ()  # of the head, unless it is that of the language models
    encodes: bool = False  # of a family with two stacks this class has the encoder only


LANGUAGE = Task(lambda settings, language: language)
BARE = Task(lambda settings, language: None)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One layout of config.json and tensors. Names are those of the home library."""

    architectures: Mapping[str, Task]  # the home library's classes
    config_from: Callable[[Settings], TransformerConfig]
    moves: Callable[[TransformerConfig], Iterable[Rename]]
    prefix: str = ""  # of every tensor but the head's; files of classes without the head leave it out
    prefixed: bool = True  # whether the modules of its language models have the prefix too
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])  # settings of which only this value can be run
    ignored: frozenset[str] = frozenset()  # settings that change no logit
    constant: tuple[str, ...] = ()  # tensors (regular expressions) that follow from the config: masks, sinusoids
    extra: tuple[str, ...] = ()  # tensors (likewise) that were learned, but for something that this model does not do
    copies: Mapping[str, str] = field(default_factory=dict[str, str])  # tensor that may be there again: its original
    older: Mapping[str, str] = field(default_factory=dict[str, str])  # ending of tensors in older files: today's

    def config(self, settings: Settings, accepted: Iterable[str] = ()) -> TransformerConfig:
        """Raises ValueError that lists every setting which is not understood and not `accepted` by name."""
        try:
            config = self.config_from(settings)
            TransformerConfig.from_dict(config.to_dict())  # looks at every field's type
        except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
            raise ValueError(
                f"config.json has a setting of a kind that this family cannot use ({type(error).__name__}: {error})"
            ) from error
        if settings.task.encodes:
            config = replace(config, decoder=None, shared_embeddings=False)
        left = settings.unread(COMMON | self.ignored, {**FIXED, **self.fixed})
        if left := [item for item in left if item.split("=")[0] not in set(accepted)]:
            raise ValueError(
                f"config.json sets {', '.join(left)}, which this version cannot run; "
                "load(..., ignore_config=[names]) goes on without them"
            )
        return config

    def placed(self, task: Task, config: TransformerConfig, names: Iterable[str], cut: str = "") -> list[Placed]:
        """Where the parameters of these names are in a file, whose names lack the prefix `cut`."""
        language = task is LANGUAGE
        moves = [move for move in self.moves(config) if language or not move.ours.startswith("head")]
        placed = plan([*moves, *task.moves], names)
        return [one._replace(theirs=one.theirs.removeprefix(cut)) for one in placed]
