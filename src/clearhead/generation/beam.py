"""Beam search: in every step, keep the `num_beams` most probable beginnings of each text.

The score of a text is the sum of its tokens' log-probabilities / (new tokens) ** length_penalty: its eos counts, the
prompt does not. A text is finished when it ends while it is among the `num_beams` best candidates of its step, or when
there is no room left. The search for one prompt is over

    early_stopping=True      as soon as `num_beams` texts are finished;
    early_stopping=False     when so many are finished and the best open one, scored at its present length, is no better
                             than the worst of them: a guess, since a longer text may still gain;
    early_stopping="never"   when no open text can get among those that will be returned: with a length_penalty above 0
                             its best hope is to go on for certain until there is no room left.

False is the default, as in Hugging Face, whose results these are: on small random models "never" found a better-scored
text for 3 % of the prompts (2 % at length_penalty 1, 7 % at 2, none at 0.6), so the two are not the same.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.generation.choose import NEVER, adjust
from clearhead.generation.loop import Progress
from clearhead.generation.options import Options
from clearhead.generation.stop import Stop


class Beams(NamedTuple):
    """Some texts for each of B prompts, the best first."""

    scores: Tensor  # [B N]; -inf where there is none
    ids: Tensor  # [B N T] prompt and new tokens
    rows: Tensor  # [B N] which row of the model's batch a text comes from

    def best(self, count: int, scores: Tensor) -> "Beams":
        """The best by other scores [B, N], which they get."""
        scores, which = scores.topk(count)
        ids = self.ids.gather(1, which[..., None].expand(-1, -1, self.ids.shape[2]))
        return Beams(scores, ids, self.rows.gather(1, which))

    def joined(self, other: "Beams") -> "Beams":
        """These and those."""
        return Beams(*(torch.cat(pair, dim=1) for pair in zip(self, other, strict=True)))


@torch.no_grad()
def beam_search(progress: Progress, stop: Stop, options: Options) -> tuple[Tensor, Tensor]:
    """The `num_return_sequences` best texts of each prompt, best first: ids [B * R, T] and scores [B * R].

    A score is -inf where there are fewer texts than that.
    """
    count, prompt = options.num_beams, progress.ids
    progress.repeat(count)
    scores = torch.full((len(prompt), count), NEVER, dtype=progress.logits().dtype, device=prompt.device)
    done = Beams(scores, prompt[:, None].expand(-1, count, -1), torch.zeros_like(scores, dtype=torch.int64))
    scores = scores.clone()
    scores[:, 0] = 0.0  # the beams of a prompt are still equal: one of them speaks for all
    closed = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    for written in range(1, stop.most + 1):
        found = candidates(progress, scores, stop, options, written)
        over = stop.ended(found.ids[..., -1]) | (written == stop.most)
        done = finish(done, found, over & ~closed[:, None], stop, options, written)
        going = found.best(count, found.scores.masked_fill(over, NEVER))
        closed = closed | settled(going.scores, done.scores, stop, options, written)
        if bool(closed.all()):
            break
        scores = going.scores
        progress.reorder(going.rows.flatten())
        progress.append(going.ids[..., -1].flatten())
    ids, scores = (part[:, : options.num_return_sequences].flatten(0, 1) for part in (done.ids, done.scores))
    longest = int(stop.lengths(ids[:, prompt.shape[1] :]).max())
    return ids[:, : prompt.shape[1] + longest], scores


def candidates(progress: Progress, scores: Tensor, stop: Stop, options: Options, written: int) -> Beams:
    """The most probable ways to go on by one token, from open texts with scores [B, N].

    One for each beam and eos, and one more for each beam: if all the former end, `num_beams` are left to go on with.
    """
    batch, count = scores.shape
    logits = progress.logits().log_softmax(-1)
    logits = adjust(logits, options, progress.ids, progress.keep, stop, written - 1)
    vocab = logits.shape[-1]
    totals = (scores[..., None] + logits.view(batch, count, vocab)).flatten(1)
    totals, which = totals.topk(min(max(2, 1 + len(stop.eos)) * count, count * vocab))
    rows = which // vocab + count * torch.arange(batch, device=which.device)[:, None]
    return Beams(totals, torch.cat([progress.ids[rows], (which % vocab)[..., None]], dim=-1), rows)


def finish(done: Beams, found: Beams, over: Tensor, stop: Stop, options: Options, written: int) -> Beams:
    """The best finished texts, now that the candidates that are `over` [B, M] may be among them."""
    count = options.num_beams
    rank = torch.arange(over.shape[1], device=over.device)
    scores = (found.scores / written**options.length_penalty).masked_fill(~over | (rank >= count), NEVER)
    filler = torch.full_like(done.ids[..., :1], stop.pad)
    both = done._replace(ids=torch.cat([done.ids, filler], dim=-1)).joined(found)
    return both.best(count, torch.cat([done.scores, scores], dim=1))


def settled(going: Tensor, done: Tensor, stop: Stop, options: Options, written: int) -> Tensor:
    """[B]: whose search is over. going, done [B, N]: scores of open texts (sums) and finished ones, best first."""
    if options.early_stopping is True:
        return done[:, -1] > NEVER
    never = options.early_stopping == "never"
    length = stop.most if never and options.length_penalty > 0 else written
    hope = going[:, 0] / length**options.length_penalty
    return hope <= (done[:, options.num_return_sequences - 1] if never else done[:, -1])
