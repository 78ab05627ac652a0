"""`generate`: the one call that does it all."""

from typing import Any, NamedTuple

from torch import Tensor

from clearhead.generation.beam import beam_search
from clearhead.generation.loop import begin, steps
from clearhead.generation.options import Options
from clearhead.model.transformer import Transformer


class Generation(NamedTuple):
    """What `generate(..., return_dict_in_generate=True)` gives. R = B * num_return_sequences, a prompt's together."""

    sequences: Tensor  # [R T]
    sequences_scores: Tensor | None  # [R], beam search only
    lengths: Tensor  # [R] new tokens of each text, its eos included


def generate(
    model: Transformer, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **options: Any
) -> Tensor | Generation:
    """Continue texts; ids [B, T] in, ids [B, prompt + new] out, with Hugging Face's names and results.

    A decoder alone gives the prompt and what follows it, a decoder beside an encoder its start token and what follows.
    After its eos a text is filled up with pad. Prompts of different length may be padded on either side:
    attention_mask [B, T] is 1 for a token and 0 for padding. Options, with defaults (see Options for what they mean):

        max_new_tokens=20  min_new_tokens=0  num_return_sequences=1  use_cache=True  return_dict_in_generate=False
        greedy or sampled  do_sample=False  temperature=1.0  top_k=50  top_p=1.0  min_p=None  generator=None
        repetition_penalty=1.0
        beam search        num_beams=1  length_penalty=1.0  early_stopping=False
        special tokens     eos_token_id  pad_token_id  decoder_start_token_id  (default: the config's and tokenizer's)
        named tokens       forced_bos_token_id=None  suppress_tokens=()  begin_suppress_tokens=()
        encoder-decoders   decoder_input_ids=None  input_features=None (of sound, instead of input_ids)

    Gradients are off. The model's mode stays as it is: after training call `model.eval()`, or dropout plays along.
    Sampling is repeatable by `torch.manual_seed` or `generator`.

    Unlike Hugging Face: right-padded prompts work; temperature 0 is greedy; top_k <= 0 is off; an empty prompt starts
    from bos; the model's own pad is never written (there: `suppress_tokens=[pad]`) and is not counted by the repetition
    penalty; a text that has ended is filled up with pad even where that is 0 (there, by beam search, with eos); what
    would be a warning there is an error here; sampling with beams does not exist.

    Raises ValueError, before any compute, for an option out of range or without effect, a model that cannot write, a
    prompt that does not fit it, one whose padding cannot be told from its text, or one that with max_new_tokens would
    run past the position table.
    """
    chosen = Options(**options)
    progress, stop = begin(model, input_ids, attention_mask, chosen)
    prompt, scores = progress.ids.shape[1], None
    if chosen.num_beams > 1:
        ids, scores = beam_search(progress, stop, chosen)
    else:
        for _ in steps(progress, stop, chosen):
            pass
        ids = progress.ids
    if not chosen.return_dict_in_generate:
        return ids
    return Generation(ids, scores, stop.lengths(ids[:, prompt:]))
