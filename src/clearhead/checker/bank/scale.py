"""Mistakes in the factor 1 / sqrt(d_k)."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import soft

RULE = "scores = Q K^T / sqrt(d_k), d_k = the last size of Q (of one head)."


def over(size: Any) -> Any:
    """The change that divides the scores by `size(c)`."""
    return {"scaled": lambda c: c.scores / size(c)}


def head(c: Any) -> Any:
    return c.q.shape[-1]


MISTAKES = (
    Mistake(
        "scale-missing",
        "The scores are not divided by sqrt(d_k). Dot products grow with d_k, so the softmax becomes too peaked.",
        f"Divide before the softmax: {RULE}",
        (over(lambda c: 1.0),),
    ),
    Mistake(
        "scale-double",
        "The scale is applied twice: once by hand and once by the library. Together that is 1/d_k.",
        f"Leave it to one of the two. {RULE}",
        (over(head),),
        hint=r"\.scaled_dot_product_attention\(|MultiheadAttention\(|"
        r"(?s:sqrt.*sqrt|\*\* ?\(?-? ?0?\.5.*\*\* ?\(?-? ?0?\.5)",
    ),
    Mistake(
        "scale-dk-not-sqrt",
        "The scores are divided by d_k itself (or half of it), not by its square root. The weights become too even.",
        f"Take the root; note that d_k ** 1/2 means d_k / 2. {RULE}",
        (over(head), over(lambda c: head(c) / 2), over(lambda c: head(c) * 2)),
    ),
    Mistake(
        "scale-inverted",
        "The scores are multiplied by sqrt(d_k) instead of divided. The weights are then nearly one-hot.",
        f"Divide, or multiply by d_k ** -0.5. {RULE}",
        (over(lambda c: head(c) ** -0.5), over(lambda c: 1.0 / head(c))),
    ),
    Mistake(
        "scale-d-model",
        "The scores are divided by sqrt(d_model), not by the root of one head's size: too small by sqrt(heads).",
        f"Use the size of one head, d_model / heads. {RULE}",
        (
            over(lambda c: np.sqrt(c.sizes["D"])),
            over(lambda c: c.sizes["D"]),
            over(lambda c: 1.0 / np.sqrt(c.sizes["D"])),
        ),
        tasks=("multi_head_attention", "cross_attention", "kv_cache"),
    ),
    Mistake(
        "scale-wrong-axis",
        "The size under the root is read from another axis: the number of heads or of samples.",
        f"Read it with Q.shape[-1]. {RULE}",
        (
            over(lambda c: np.sqrt(c.q.shape[-3])),
            over(lambda c: np.sqrt(c.q.shape[-4])),
        ),
    ),
    Mistake(
        "scale-seq-len",
        "The scores are divided by the root of the number of tokens. It looks right exactly when that equals d_k.",
        f"Read the size of a key, not the length: Q.shape[-1]. {RULE}",
        (
            over(lambda c: np.sqrt(c.k.shape[-2])),
            over(lambda c: np.sqrt(c.q.shape[-2])),
            over(lambda c: c.k.shape[-2]),
            over(lambda c: c.q.shape[-2]),
        ),
    ),
    Mistake(
        "scale-dv",
        "The scale uses the size of the values, d_v. It looks right whenever d_v equals d_k.",
        f"Use the size of queries and keys. {RULE}",
        (over(lambda c: np.sqrt(c.v.shape[-1])),),
    ),
    Mistake(
        "scale-hardcoded",
        "The factor is a fixed number whatever the size. It is right for one d_k only (8 for 64).",
        f"Compute it from the input. {RULE}",
        tuple(
            over(lambda c, n=n: n)
            for n in (8.0, 0.125, 2.0, 0.5, 4.0, 10.0, 16.0, 64.0, 5.0, 3.0, 11.313708499, 22.627417)
        ),
    ),
    Mistake(
        "scale-int-sqrt",
        "The root is cut to a whole number. It is right only where d_k is a square (16, 64, 256).",
        f"Keep the fraction: math.sqrt, not int(...). {RULE}",
        (
            over(lambda c: int(np.sqrt(head(c)))),
            over(lambda c: round(np.sqrt(head(c)))),
            over(lambda c: np.ceil(np.sqrt(head(c)))),
        ),
    ),
    Mistake(
        "floor-division",
        "The scores are divided with //, which rounds them down to whole numbers.",
        f"Use a single /. {RULE}",
        ({"scaled": lambda c: c.scores // np.sqrt(head(c))},),
    ),
    Mistake(
        "scale-fourth-root-once",
        "Only one side is divided by the fourth root of d_k, so the scores are divided by d_k ** 0.25 in all.",
        f"Divide both Q and K by d_k ** 0.25, or the product by the root. {RULE}",
        (over(lambda c: head(c) ** 0.25),),
    ),
    Mistake(
        "scale-after-softmax",
        "The division comes after the softmax, so the weights of a row sum to 1/sqrt(d_k) instead of 1.",
        f"Scale first, then softmax. {RULE}",
        (
            {
                "scaled": lambda c: c.scores,
                "used": lambda c: c.weights / np.sqrt(head(c)),
                "shown": lambda c: c.weights / np.sqrt(head(c)),
            },
            {"scaled": lambda c: c.scores, "result": lambda c: c.out / np.sqrt(head(c))},
            {"used": lambda c: c.weights / np.sqrt(head(c)), "shown": lambda c: c.weights / np.sqrt(head(c))},
        ),
    ),
    Mistake(
        "bias-scaled",
        "The additive mask or bias is divided by sqrt(d_k) together with the scores. With 0 and -inf nothing shows.",
        "Add it after the scale: softmax(Q K^T / sqrt(d_k) + bias).",
        ({"biased": lambda c: c.scaled if c.bias is None else c.scaled + c.bias / np.sqrt(head(c))},),
    ),
    Mistake(
        "softmax-base-two",
        "The softmax uses powers of 2 without the factor log2(e), so the scores count only ln 2 of their size.",
        "Use exp, or multiply the scores by log2(e) = 1.4427 before exp2.",
        ({"weights": lambda c: soft(c, c.masked * np.log(2.0))},),
    ),
)
