"""What the docs say about masks and shapes."""

from __future__ import annotations

import ast

import pytest

from clearhead.checker.source import Source, shape_words
from clearhead.checker.subject import Subject

SAID = {
    "True means the position is masked out": "hide",
    "mask: bool, True = padding": "hide",
    "mask: True for positions to ignore": "hide",
    "1 for tokens that are not masked, 0 for masked tokens": "keep",
    "mask (B,1,1,T): 0 where padded": "keep",
    "positions where mask is False are hidden": "keep",
    "boolean mask, True = keep": "keep",
    "mask is True at positions that must not be attended to": "hide",
    "mask: 0 = hidden, 1 = visible": "keep",
    "entries with mask == 0 are set to -inf": "keep",
    "mask: additive, 0 or -inf": "add",
    "True means may attend": "keep",
    "True means may not attend": "hide",
    "mask: 1 means block": "hide",
    "mask: optional mask": None,
    "mask[b, j] is True if key j is a real token": "keep",
    "where mask is True, scores are replaced by -inf": "hide",
    "hidden positions are True": "hide",
    "masked positions are 0": "keep",
    "mask of ones and zeros; zeros are masked": "keep",
    "nonzero entries are visible": "keep",
    "True: this key takes part": "keep",
}


@pytest.mark.parametrize("said", SAID)
def test_the_mask_convention_that_docs_announce(said: str) -> None:
    text = f'def attend(q, k, v, mask):\n    """{said}"""\n'
    source = Source(Subject("attend.py", text, ast.parse(text), {}, {}), "attend")
    assert source.convention("mask") == SAID[said]


def test_shapes_in_docs() -> None:
    docs = "q, k, v: (B, H, T, d); mask [batch, T_k]; called as V.transpose(1, 2)"
    assert shape_words(docs, "v") == ["B", "H", "T", "d"]
    assert shape_words(docs, "mask") == ["batch", "T_k"]
    assert shape_words(docs, "V") is None
