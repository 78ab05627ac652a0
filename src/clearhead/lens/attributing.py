"""Which tokens a result rests on: gradients and occlusion, taken where the tokens enter the stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead import config as forms
from clearhead.lens.edit import edit
from clearhead.lens.inputs import Inputs, at_rest, names, place, places, single, token_id
from clearhead.lens.integrating import Rows, integrated, parts
from clearhead.lens.neutral import neutral
from clearhead.lens.progress import steps as one_by_one
from clearhead.lens.record import record
from clearhead.lens.table import Table
from clearhead.model.transformer import Transformer

Method = Literal["input_x_gradient", "integrated_gradients", "occlusion"]


def saliency(
    model: nn.Module,
    inputs: Inputs,
    target: int | str | None = None,
    *,
    position: int = -1,
    method: Method = "input_x_gradient",
    steps: int = 32,
    baseline: int | str | Tensor | None = None,
    progress: bool = True,
) -> Table:
    """How much each token that a model reads, source and target, bears on one logit.

    inputs: one sample (see inputs.py). target: a label of a classifier ("start" or "end" of an answer), or the token,
    an id or a piece, that is predicted at `position`; None: the likeliest. What token i is worth:

    input_x_gradient: embedding i times the gradient there, summed over the width (Denil et al. 2014).
    integrated_gradients: (embedding - baseline) times the mean gradient on the straight way between them (Sundararajan
    et al. 2017), from `steps` places and more where it turns; they sum to the logit minus that of the baseline.
    occlusion: the logit minus that without the token, the baseline in its place (Zeiler & Fergus 2014).

    baseline: a token in the place of every token, an id or a piece; or a vector [D] that enters layer 0 instead; None:
    the mask token, else pad, eos or bos; for a sound, silence. The values are one for each token; `more["stack"]` says
    who reads it. Raises ValueError for another method or target.
    """
    if method not in ("input_x_gradient", "integrated_gradients", "occlusion"):
        raise ValueError(f"method={method!r}; there are input_x_gradient, integrated_gradients and occlusion")
    if steps < 1:
        raise ValueError(f"steps={steps}; at least 1 is needed")
    if method == "input_x_gradient" and baseline is not None:
        raise ValueError("baseline is given, but method='input_x_gradient' compares with nothing; leave it out")
    with at_rest(model) as inner:
        given = single(inner, inputs)
        with record(inner, [f"{name}.embed" for name in inner.config.stacks]) as seen:
            logits = inner(**given).logits
        asked = _Asked(inner, given, *_target(inner, given, logits, target, position))
        rows: Rows = {address.removesuffix(".embed"): value[0] for address, value in seen.items()}
        read = {name: seen.texts[-1].get(name) for name in rows}
        blank = rows
        if method != "input_x_gradient":
            blank = {name: neutral(inner, given, name, read[name], row, baseline) for name, row in rows.items()}
        if method == "input_x_gradient":
            worth = _times(asked, rows)
        elif method == "occlusion":
            worth = _occluded(asked, rows, blank, progress)
        else:
            worth = integrated(asked, rows, blank, steps, progress)
        scores = asked({name: torch.stack([rows[name], blank[name]]) for name in rows}).tolist()
    labels = [label for name, row in rows.items() for label in places(inner, read[name], name, len(row))]
    more = {"stack": [name for name in rows for _ in rows[name]], "target": asked.name, "score": scores[0]}
    more |= {} if blank is rows else {"baseline_score": scores[1]}
    note = _note(float(worth.sum()), scores[0] - scores[1], steps) if method == "integrated_gradients" else ""
    return Table(f"{method.replace('_', ' ')} of {asked.name!r}", {"token": labels}, worth.cpu(), "logit", note, more)


def _note(found: float, whole: float, steps: int) -> str:
    said = f"The values sum to {found:.4g}; the logit differs from that of the baseline by {whole:.4g}."
    far = abs(found - whole) > 0.01 * abs(whole)
    return said + (f" That is more than 1 % apart: take another baseline, or more than {steps} steps." if far else "")


@dataclass(frozen=True)
class _Asked:
    """One logit, as a function of what enters the stacks."""

    model: Transformer
    given: Mapping[str, Any]
    where: tuple[int, ...]  # in the logits of one sample
    name: str

    def __call__(self, rows: Rows) -> Tensor:
        """rows [N, T, D] for each stack: N versions of what enters it. The logit of each, [N]."""
        count = len(next(iter(rows.values())))
        given = {
            name: value.expand(count, *value.shape[1:]) if isinstance(value, Tensor) and value.dim() > 1 else value
            for name, value in self.given.items()
        }
        with edit(self.model, {f"{name}.embed": _Put(value) for name, value in rows.items()}):
            logits = self.model(**given).logits
        return logits[(slice(None), *self.where)]

    def gradients(self, rows: Rows) -> Rows:
        """Of each version's logit, [N, T, D] for each stack. Those of the parameters are not touched."""
        leaves = {name: value.detach().requires_grad_() for name, value in rows.items()}
        with torch.enable_grad():
            found = torch.autograd.grad(self(leaves).sum(), [*leaves.values()])
        return dict(zip(leaves, found, strict=True))


@dataclass(frozen=True)
class _Put:
    """An edit: this instead."""

    value: Tensor

    def __call__(self, value: Tensor) -> Tensor:
        return self.value


def _target(
    model: Transformer, given: Mapping[str, Any], logits: Tensor | None, target: int | str | None, position: int
) -> tuple[tuple[int, ...], str]:
    """Where in the logits of one sample the target stands, and its name."""
    head = model.config.head
    if logits is None or head is None:
        kind = "None" if head is None else f"a {type(head).__name__}"
        raise ValueError(f"config.head is {kind}, which gives no logit to explain")
    at = (place(model, given, position, logits.shape[1]),) if logits.dim() == 3 else ()
    if target is None:
        target = int(logits[(0, *at)].argmax())
    if isinstance(head, forms.Head):
        name = [*model.config.stacks][-1]
        token = token_id(model, target, name)
        return (*at, token), names(model, torch.tensor([token]), name)[0]
    labels = ("start", "end") if isinstance(head, forms.AnswerSpan) else getattr(head, "labels", ())
    i = labels.index(target) if target in labels else target
    if not isinstance(i, int) or not 0 <= i < len(labels):
        raise ValueError(f"target={target!r}; the labels are {', '.join(labels)} (0 to {len(labels) - 1})")
    return (*at, i), labels[i]


def _times(asked: _Asked, rows: Rows) -> Tensor:
    gradients = asked.gradients({name: row[None] for name, row in rows.items()})
    return torch.cat([(row * gradients[name][0]).sum(-1) for name, row in rows.items()])


def _occluded(asked: _Asked, rows: Rows, blank: Rows, progress: bool) -> Tensor:
    """The first version is the text as it is; each other lacks one token."""
    cases = [("", 0), *((name, t) for name, row in rows.items() for t in range(len(row)))]
    found: list[Tensor] = []
    for part in one_by_one("occlusion", parts(len(cases), rows), progress):
        versions = {name: row.expand(len(part), *row.shape).clone() for name, row in rows.items()}
        for version, (name, t) in enumerate(cases[part.start : part.stop]):
            if name:
                versions[name][version, t] = blank[name][t]
        found.append(asked(versions))
    return found[0][0] - torch.cat(found)[1:]
