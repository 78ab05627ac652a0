"""Recorded weights are the home library's eager attentions, for every family, in tiles too."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from truth import homes
from truth.cases import Case, case, text
from truth.homes import HOMES

LIMIT = 1e-5
# One for each rule: bare, grouped and turned, windows, norms on q and k, soft cap, long factors, other stacks, a window
# on both sides, biases by distance, sound.
RULES = ["gpt2", "llama", "mistral", "qwen3", "gemma2", "gemma3", "phi3, longrope", "bert", "modernbert", "t5", "bart"]
RULES += ["whisper"]


def attentions(c: Case, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The home library's weights [B, H, Q, K], which it has with its slow attention only, at our addresses."""
    home = type(c.home).from_pretrained(c.folder, attn_implementation="eager").eval()
    found = home(**inputs, output_attentions=True)
    if c.two:
        names = {"encoder.{}.self": "encoder", "decoder.{}.self": "decoder", "decoder.{}.cross": "cross"}
        given = {place: found[f"{name}_attentions"] for place, name in names.items()}
    else:
        given = {f"{next(iter(c.ours.config.stacks))}.{{}}.self": found.attentions}
    return {f"{place.format(i)}.weights": w for place, layers in given.items() for i, w in enumerate(layers)}


def recorded(c: Case, inputs: dict[str, Tensor]) -> dict[str, Weights]:
    with record(c.ours, "*.weights") as seen:
        c.ours(**inputs)
    return dict(seen)


def both(c: Case, ids: Tensor, mask: Tensor | None = None) -> list[tuple[Weights, Tensor]]:
    """For every attention our view and the home library's weights."""
    inputs = c.inputs(ids, mask)
    mine, theirs = recorded(c, inputs), attentions(c, inputs)
    assert mine.keys() == theirs.keys()
    return [(mine[address], theirs[address]) for address in mine]


def near(mine: Tensor, theirs: Tensor, limit: float = LIMIT) -> None:
    assert mine.shape == theirs.shape
    assert float((mine - theirs).abs().max()) <= limit


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", HOMES)
def test_ins_01_weights_are_the_home_librarys(name: str) -> None:
    for view, theirs in both(case(name), text(2, 44)):
        assert float((theirs.sum(-1) - 1).abs().max()) < LIMIT
        assert theirs.max() > 1.5 * theirs.median(), "not all alike"
        near(view.dense(), theirs)


@pytest.mark.parametrize("name", [name for name in HOMES if not name.startswith("whisper")])
def test_weights_under_padding(name: str) -> None:
    """Rows of padding are nobody's business: some look at nothing, which the home library spreads evenly."""
    c = case(name)
    ids, mask = text(2, 44), torch.ones(2, 44, dtype=torch.int64)
    ids[1, 37:], mask[1, 37:] = c.pad, 0  # not so short that it has other rotary factors than its neighbour
    for view, theirs in both(c, ids, mask):
        rows = mask.bool() if view.shape[2] == 44 else torch.ones(2, view.shape[2], dtype=torch.bool)
        near(view.dense().transpose(1, 2)[rows], theirs.transpose(1, 2)[rows])  # rows of Q in front


def long(name: str) -> Case:
    """The same model with longer tables of positions; some begin in row 5."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(homes, "LENGTH", 520)
        return case.__wrapped__(name)


@pytest.mark.parametrize("name", [n if n in RULES else pytest.param(n, marks=pytest.mark.slow) for n in HOMES])
def test_ins_10_statistics_in_tiles_are_those_of_all_weights(name: str) -> None:
    for view, theirs in both(long(name), text(2, 512)):
        near(view.dense(), theirs)
        w = view.dense().double()
        found = view.measure("entropy", "max", top=8)
        near(found["entropy"], torch.special.entr(w).sum(-1) / math.log(2))
        near(found["max"], w.amax(-1))
        near(found["top"], w.topk(8).values)
        near(w.gather(-1, found["top_keys"]), found["top"])
        near(view.columns() / w.shape[-2], w.mean(-2))


def test_every_rule_is_among_those_at_512() -> None:
    forms = [layer.self_attention for n in RULES for s in case(n).ours.config.stacks.values() for layer in s.layers]
    assert any(form.kv_heads for form in forms)
    assert {(bool(form.window), form.causal) for form in forms} >= {(True, True), (True, False), (False, False)}
    assert all(any(getattr(form, name) for form in forms) for name in ("rotary", "softcap", "qk_norm", "scale"))
    stacks = [stack for name in RULES for stack in case(name).ours.config.stacks.values()]
    assert any(stack.relative_bias for stack in stacks)
    assert any(stack.audio for stack in stacks)
