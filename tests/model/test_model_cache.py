"""Cached = uncached, token by token and in chunks, for every decoder."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap
from model.tiny import DECODERS, TRANSLATORS, build, close, text

CHUNKS = {"token by token": [1] * 12, "3 then 2": [3, 2, 3, 4], "long then single": [9, 1, 1, 1], "at once": [12]}


def pieces(model: Transformer, ids: Tensor, sizes: list[int], **rest: Tensor) -> Tensor:
    """Logits of the decoder's text, given piece by piece."""
    cache, logits, start = Cache(), [], 0
    for size in sizes:
        piece = ids[:, start : start + size]
        out = model(decoder_input_ids=piece, cache=cache, **rest) if rest else model(piece, cache=cache)
        assert out.cache is cache
        logits.append(out.logits)
        start += size
    assert cache.length == start
    assert torch.equal(cache.ids, ids)  # type: ignore[arg-type]
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize("sizes", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("kind", DECODERS)
def test_gen_02_a_decoder_with_cache_equals_without(kind: str, sizes: list[int]) -> None:
    model, ids = build(DECODERS[kind]()), text(2, 12)
    expected = model(ids).logits
    close(pieces(model, ids, sizes), expected)
    with torch.no_grad():
        close(pieces(model, ids, sizes), expected)


@pytest.mark.parametrize("sizes", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("kind", TRANSLATORS)
def test_gen_03_a_translator_with_cache_equals_without(kind: str, sizes: list[int]) -> None:
    model, ids, source = build(TRANSLATORS[kind]()), text(2, 12), text(2, 7, vocab=31, seed=1)
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    expected = model(source, mask, ids).logits
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            states = model.encode(source, mask)
            close(pieces(model, ids, sizes, encoder_hidden=states, attention_mask=mask), expected)
            close(pieces(model, ids, sizes, input_ids=source, attention_mask=mask), expected)


@pytest.mark.parametrize("kind", DECODERS | TRANSLATORS)
@torch.no_grad()
def test_gen_03_tokens_that_are_cached_already_are_refused(kind: str) -> None:
    model, ids, source = build((DECODERS | TRANSLATORS)[kind]()), text(2, 6), text(2, 4, vocab=31)
    given = {"decoder_input_ids": ids[:, :4]} if kind in TRANSLATORS else {}
    name = "decoder_input_ids" if given else "input_ids"
    cache = Cache()
    model(source if given else ids[:, :4], **given, cache=cache)
    given = {"decoder_input_ids": ids} if given else {}
    with pytest.raises(ValueError, match=f"{name} begins with the 4 tokens that the cache already holds"):
        model(source if given else ids, **given, cache=cache)
    assert cache.length == 4


@pytest.mark.parametrize("kind", DECODERS)
@torch.no_grad()
def test_gen_01_greedy_with_and_without_cache(kind: str) -> None:
    model, ids = build(DECODERS[kind]()), text(2, 5)
    cache, new = Cache(), ids
    for _ in range(8):
        cached, plain = model(new, cache=cache).logits[:, -1], model(ids).logits[:, -1]
        close(cached, plain)
        new = cached.argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], dim=1)


@torch.no_grad()
def test_msk_14_a_window_of_3_after_a_prompt_of_8() -> None:
    model, ids = build(DECODERS["window_decoder"]()), text(1, 11)
    expected = model(ids).logits
    close(pieces(model, ids, [8, 1, 1, 1]), expected)
    close(pieces(model, ids, [8, 3]), expected)
    close(pieces(model, ids, [1] * 11), expected)


@pytest.mark.parametrize("whole_mask", [True, False], ids=["mask of all", "mask of the new"])
@pytest.mark.parametrize("sizes", [[5, 1, 1, 1], [4, 4], [1] * 8, [1, 1, 6]], ids=str)
@pytest.mark.parametrize("kind", DECODERS)
@torch.no_grad()
def test_a_padded_prompt_is_cached_as_well(kind: str, sizes: list[int], whole_mask: bool) -> None:
    """Row 0 is whole, row 1 is padded on the left, row 2 in the middle, row 3 at the end of the first piece."""
    model, ids = build(DECODERS[kind]()), text(4, 8)
    mask = torch.ones(4, 8, dtype=torch.int64)
    mask[1, :3] = mask[2, 2:4] = mask[3, 3] = 0
    expected, cache, logits, start = model(ids, mask).logits, Cache(), [], 0
    for size in sizes:
        seen = mask[:, : start + size] if whole_mask else mask[:, start : start + size]
        logits.append(model(ids[:, start : start + size], seen, cache=cache).logits)
        start += size
    here = mask.bool()
    close(torch.cat(logits, dim=1)[here], expected[here])


@pytest.mark.parametrize("kind", DECODERS)
@torch.no_grad()
def test_new_tokens_after_a_padded_prompt_need_no_mask(kind: str) -> None:
    model, ids = build(DECODERS[kind]()), text(2, 8)
    mask = torch.tensor([[1] * 8, [0, 0, 0, 1, 1, 1, 1, 1]])
    cache = Cache()
    model(ids[:, :5], mask[:, :5], cache=cache)
    model(ids[:, 5:6], cache=cache)
    close(model(ids[:, 6:], cache=cache).logits, model(ids, mask).logits[:, 6:])


@torch.no_grad()
def test_gradients_may_be_switched_between_calls() -> None:
    model, ids = build(DECODERS["rotary_decoder"]()), text(2, 9)
    cache, parts = Cache(), []
    for i in range(9):
        with torch.set_grad_enabled(i % 3 == 2):
            parts.append(model(ids[:, i : i + 1], cache=cache).logits)
    close(torch.cat(parts, 1), model(ids).logits)


def test_the_gradient_flows_through_the_cache() -> None:
    model, ids = build(DECODERS["rotary_decoder"]()), text(2, 6)
    expected = torch.autograd.grad(model(ids).logits[:, -1].square().sum(), model.decoder.embedding.weight)[0]
    cache = Cache()
    model(ids[:, :4], cache=cache)
    got = torch.autograd.grad(
        model(ids[:, 4:], cache=cache).logits[:, -1].square().sum(), model.decoder.embedding.weight
    )
    close(got[0], expected)


@pytest.mark.parametrize("kind", DECODERS | TRANSLATORS)
@torch.no_grad()
def test_rows_of_the_cache_may_be_chosen_and_repeated(kind: str) -> None:
    model, ids, source = build((DECODERS | TRANSLATORS)[kind]()), text(3, 8), text(3, 5, vocab=31)
    mask = torch.tensor([[1] * 5, [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    rows, cache = torch.tensor([2, 0, 2, 1]), Cache()
    if kind in TRANSLATORS:
        model(source, mask, ids[:, :5], cache=cache)
        cache.select(rows)
        got = model(source[rows], mask[rows], ids[rows][:, 5:], cache=cache).logits
        expected = model(source, mask, ids).logits
    else:
        model(ids[:, :5], mask, cache=cache)
        cache.select(rows)
        got = model(ids[rows][:, 5:], cache=cache).logits
        expected = model(ids, torch.cat([mask, torch.ones(3, 3, dtype=mask.dtype)], 1)).logits
    close(got, expected[rows][:, 5:])


@torch.no_grad()
def test_num_11_the_gap_of_the_cache_in_lower_precision() -> None:
    ids = text(2, 12)
    for dtype, limit in ((torch.float32, 2e-5), (torch.bfloat16, 0.5)):
        model = build(DECODERS["rotary_decoder"](), dtype)
        close(pieces(model, ids, [5] + [1] * 7).float(), model(ids).logits.float(), limit)


@torch.no_grad()
def test_positions_go_on_from_those_that_were_given() -> None:
    model, ids = build(DECODERS["learned_decoder"]()), text(2, 6)
    at = torch.arange(10, 16).expand(2, 6)
    expected, cache = model(ids, positions=at).logits, Cache()
    model(ids[:, :4], positions=at[:, :4], cache=cache)
    close(model(ids[:, 4:], cache=cache).logits, expected[:, 4:])


class Trip(Tap):
    """Stumbles in the second layer of the decoder."""

    def __init__(self, place: str = ""):
        self.place = place

    def at(self, name: str) -> Tap:
        if (self.place, name) == ("decoder", "1"):
            raise RuntimeError("stumbled")
        return Trip(name)


@pytest.mark.parametrize("first", [True, False], ids=["first call", "second call"])
@pytest.mark.parametrize("kind", DECODERS | TRANSLATORS)
@torch.no_grad()
def test_a_call_that_raises_leaves_the_cache_as_it_was(kind: str, first: bool) -> None:
    model, ids, source = build((DECODERS | TRANSLATORS)[kind]()), text(2, 6), text(2, 4, vocab=31)
    cache, mask = Cache(), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])

    def run(piece: Tensor, **rest: Any) -> Tensor:
        return model(source, mask, piece, **rest).logits if kind in TRANSLATORS else model(piece, **rest).logits

    if not first:
        run(ids[:, :4], cache=cache)
    with pytest.raises(RuntimeError, match="stumbled"):
        run(ids if first else ids[:, 4:], cache=cache, tap=Trip())
    got = run(ids if first else ids[:, 4:], cache=cache)
    close(got, run(ids)[:, -got.shape[1] :])


@pytest.mark.parametrize("kind", TRANSLATORS)
@torch.no_grad()
def test_hypotheses_of_one_source_change_places_without_its_keys_being_copied(kind: str) -> None:
    model, ids, source, cache = build(TRANSLATORS[kind]()), text(3, 6), text(1, 4, vocab=31).repeat(3, 1), Cache()
    rows = torch.tensor([2, 0, 0])
    model(source, None, ids[:, :4], cache=cache)
    kept = cache.layer(0).cross.all()[0].data_ptr()
    cache.reorder(rows)
    assert cache.layer(0).cross.all()[0].data_ptr() == kept
    got = model(source, None, ids[rows, 4:], cache=cache).logits
    close(got, model(source, None, ids[rows]).logits[:, 4:])
