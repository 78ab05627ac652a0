"""How to generate: every option, its meaning and its check, under Hugging Face's names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """Raises ValueError, naming the option, its value and the fix, for one that is out of range or has no effect.

    Names, meanings and defaults are those of transformers 5 (its `max_length` of 20 became `max_new_tokens`).
    """

    max_new_tokens: int = 20
    min_new_tokens: int = 0  # no text ends before it has as many
    num_beams: int = 1  # more than 1: beam search
    do_sample: bool = False
    temperature: float = 1.0  # 0 is greedy
    top_k: int | None = 50  # None, 0, negative, or the whole vocabulary and more: off
    top_p: float = 1.0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    length_penalty: float = 1.0  # a beam's score is its summed log-probability / (new tokens) ** length_penalty
    early_stopping: bool | Literal["never"] = False  # when beam search ends, see beam.py
    num_return_sequences: int = 1
    eos_token_id: int | Sequence[int] | None = None  # None: all that the config and the tokenizer name; (): none
    pad_token_id: int | None = None  # None: the config's, the tokenizer's, or the first eos
    decoder_start_token_id: int | None = None  # None: config.start, or bos
    decoder_input_ids: Tensor | None = None  # [B, T], what the decoder beside an encoder has already written
    input_features: Tensor | None = None  # [B, bins, frames], what an encoder of sound hears, instead of input_ids
    forced_bos_token_id: int | None = None  # comes right after a start token (mBART, M2M100: the language)
    suppress_tokens: Sequence[int] = ()  # never written
    begin_suppress_tokens: Sequence[int] = ()  # never first, after a forced one if there is one
    generator: torch.Generator | None = None  # None: torch's global one (`torch.manual_seed`)
    use_cache: bool = True
    return_dict_in_generate: bool = False

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(problem)

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn. A temperature of 0 leaves nothing to draw."""
        return self.do_sample and self.temperature > 0


def _problems(o: Options) -> Iterator[str]:
    if o.max_new_tokens < 1:
        yield f"max_new_tokens is {o.max_new_tokens}; it must be at least 1"
    if not 0 <= o.min_new_tokens <= o.max_new_tokens:
        yield f"min_new_tokens is {o.min_new_tokens}; it must be from 0 to max_new_tokens, which is {o.max_new_tokens}"
    if o.num_beams < 1:
        yield f"num_beams is {o.num_beams}; it must be at least 1"
    if not 0 <= o.temperature < float("inf"):
        yield f"temperature is {o.temperature}; it must be 0 (greedy) or a positive number"
    if not 0 <= o.top_p <= 1:
        yield f"top_p is {o.top_p}; it must be from 0 to 1 (1: off)"
    if o.min_p is not None and not 0 <= o.min_p <= 1:
        yield f"min_p is {o.min_p}; it must be from 0 to 1 (None: off)"
    if not 0 < o.repetition_penalty < float("inf"):
        yield f"repetition_penalty is {o.repetition_penalty}; it must be a positive number (1: off)"
    if o.early_stopping not in (True, False, "never"):
        yield f'early_stopping is {o.early_stopping!r}; it must be True, False or "never"'
    yield from _contradictions(o)


def _contradictions(o: Options) -> Iterator[str]:
    if o.do_sample and o.num_beams > 1:
        yield f"do_sample is True and num_beams is {o.num_beams}; choose one: sampling draws, beam search compares"
    active = {
        "temperature": o.temperature not in (0, 1),
        "top_k": o.top_k is not None and o.top_k > 0 and o.top_k != Options.top_k,
        "top_p": o.top_p < 1,
        "min_p": bool(o.min_p),
    }
    for name in (name for name, on in active.items() if on and not o.do_sample):
        yield f"{name} is {getattr(o, name)}, but it has an effect only with do_sample=True; set that too"
    texts = o.num_return_sequences
    if texts < 1:
        yield f"num_return_sequences is {texts}; it must be at least 1"
    elif texts > o.num_beams and not o.samples:
        yield (
            f"num_return_sequences is {texts}, but num_beams is {o.num_beams}; "
            "without sampling there are only as many different texts as beams"
        )
