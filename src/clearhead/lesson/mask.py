"""Topic `mask`: who may attend to whom. Hidden keys get a weight of exactly 0."""

import torch
from torch import Tensor

from clearhead.formulas.attention import attention, attention_weights
from clearhead.formulas.mask import causal_mask, length_mask
from clearhead.lesson.example import TOKENS, Example, example
from clearhead.lesson.page import Page, Step
from clearhead.lesson.threads import one_thread

PADDED = (*TOKENS[:2], "<pad>")
BLIND = 1  # the query that sees nothing


@one_thread()
def page() -> Page:
    """Causal, padding, both, and a query with nothing to attend to; in float64."""
    given = example()
    return Page(
        topic="mask",
        title="Masks: who may attend to whom",
        steps=(*_causal(given), *_padding(given), *_blind(given)),
    )


def _causal(given: Example) -> tuple[Step, ...]:
    q, k, v = _qkv(given)
    places = torch.arange(len(TOKENS))
    mask = causal_mask(places, places)
    weights = attention_weights(q, k, mask)[0, 0]
    above = weights[~mask]
    return (
        Step(
            name="causal_mask",
            shape="Q K",
            words="A decoder must not see the future: a token sees itself and what came before.",
            value=mask.numpy(),
            labels=(TOKENS, TOKENS),
        ),
        Step(
            name="causal_weights_full_precision",
            shape="Q K",
            formula="softmax(scaled_scores, hidden ones at -inf)",
            words="The weights of the worked example under it.",
            value=weights.numpy(),
            labels=(TOKENS, TOKENS),
            note="exp(-inf) is 0, so a row is shared among the keys that are left. The last row sees all, as before.",
        ),
        Step(
            name="above_diagonal",
            words="The weights above the diagonal are exactly 0, not just small.",
            value={
                "weights": ["above the diagonal"],
                "count": [above.numel()],
                "exactly_0": [int((above == 0).sum())],
            },
        ),
        Step(
            name="causal_output_full_precision",
            shape="Q E",
            formula="weights V",
            words="The first token sees only itself, so its output is its own value.",
            value=attention(q, k, v, mask)[0, 0].numpy(),
            labels=(TOKENS,),
        ),
    )


def _padding(given: Example) -> tuple[Step, ...]:
    q, k, v = _qkv(given)
    real = len(PADDED) - 1
    mask = length_mask(torch.tensor([real]), len(PADDED))[0, 0].expand(len(PADDED), -1)  # [Q K]
    places = torch.arange(len(PADDED))
    padded = attention(q, k, v, mask)[:, :, :real]
    alone = attention(q[:, :, :real], k[:, :, :real], v[:, :, :real])
    return (
        Step(
            name="padding_mask",
            shape="Q K",
            words="Texts of a batch are filled up to one length; nobody attends to the filling.",
            value=mask.numpy(),
            labels=(PADDED, PADDED),
        ),
        Step(
            name="padded_weights",
            shape="Q K",
            words="The weights of a two-token text in a batch of length three.",
            value=attention_weights(q, k, mask)[0, 0].numpy(),
            labels=(PADDED, PADDED),
        ),
        Step(
            name="padded_minus_alone",
            words="Largest difference from the output of the same text alone, without padding.",
            value=_gap(padded, alone),
        ),
        Step(
            name="causal_and_padding",
            shape="Q K",
            formula="causal_mask & padding_mask",
            words="Masks are combined with `and`: a key must be allowed by both.",
            value=(causal_mask(places, places) & mask).numpy(),
            labels=(PADDED, PADDED),
        ),
    )


def _blind(given: Example) -> tuple[Step, ...]:
    q, k, v = _qkv(given)
    q.requires_grad_()
    mask = torch.ones(len(TOKENS), len(TOKENS), dtype=torch.bool)
    mask[BLIND] = False
    output = attention(q, k, v, mask)
    (gradient,) = torch.autograd.grad(output.square().sum(), q)
    return (
        Step(
            name="blind_weights",
            shape="Q K",
            words=f"If {TOKENS[BLIND]!r} may attend to nothing, its row is zeros: no 0 / 0, no NaN.",
            value=attention_weights(q, k, mask)[0, 0].detach().numpy(),
            labels=(TOKENS, TOKENS),
        ),
        Step(
            name="blind_output",
            shape="Q E",
            words="Its output is zeros too.",
            value=output[0, 0].detach().numpy(),
            labels=(TOKENS,),
        ),
        Step(
            name="blind_gradient",
            shape="Q E",
            formula="d sum(output²) / dQ",
            words="And nothing is learned from it: its gradient is zeros.",
            value=gradient[0, 0].numpy(),
            labels=(TOKENS,),
        ),
    )


def _qkv(given: Example) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K, V of the worked example, [1 1 T E] in float64."""
    return torch.tensor(given.Q)[None, None], torch.tensor(given.K)[None, None], torch.tensor(given.V)[None, None]


def _gap(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()
