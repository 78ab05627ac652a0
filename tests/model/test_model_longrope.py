"""Rotary positions whose factors depend on the length of the text: per text, whatever stands beside or before it."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from clearhead.config import Attention, FeedForward, Layer, LongRope, Rotary, Stack, TransformerConfig
from clearhead.model.cache import Cache
from clearhead.model.describe import describe
from clearhead.model.transformer import Transformer
from model.tiny import build, close, post_norm_translator, rotary_decoder, text

LENGTH = 8
TURN = Rotary(scaling=LongRope(short=(1.0, 1.2, 1.4), long=(3.0, 5.0, 7.0), length=LENGTH))


def turned(config: TransformerConfig) -> TransformerConfig:
    """The second layer of the decoder turns by angles that depend on the length."""
    assert config.decoder is not None
    first, second = config.decoder.layers
    own = replace(second.self_attention, head_dim=6, rotary=TURN)
    return replace(config, decoder=replace(config.decoder, layers=(first, replace(second, self_attention=own))))


@pytest.fixture
def model() -> Transformer:
    return build(turned(rotary_decoder()))


def test_a_description_names_the_factors_but_not_all_of_many(model: Transformer) -> None:
    assert "short (1.0, 1.2, 1.4), long (3.0, 5.0, 7.0), length 8" in describe(model)
    many = Rotary(scaling=LongRope(short=(1.25,) * 40, long=(1.5,) * 40, length=8))
    layer = Layer(self_attention=Attention(heads=1, rotary=many), feed_forward=FeedForward(dim=2), bare=True)
    said = describe(build(TransformerConfig(dim=80, encoder=Stack(layers=(layer,), vocab=3), head=None)))
    assert "(1.25, 1.25, 1.25, 1.25, 1.25, ...)" in said
    assert "pre norm, bare" in said


def test_one_more_token_than_the_length_turns_all_of_them(model: Transformer) -> None:
    ids = text(1, LENGTH + 2)
    short, whole = model(ids[:, :LENGTH]).logits, model(ids[:, : LENGTH + 1]).logits
    assert (short - whole[:, :LENGTH]).abs().max() > 1e-3
    close(whole, model(ids).logits[:, : LENGTH + 1])


def test_each_text_of_a_batch_has_its_own_length(model: Transformer) -> None:
    long, short = text(1, 12), text(1, 7, seed=1)
    for padding in ((5, 0), (0, 5)):
        ids = torch.cat([long, torch.nn.functional.pad(short, padding)])
        mask = torch.cat([torch.ones_like(long), torch.nn.functional.pad(torch.ones_like(short), padding)])
        found = model(ids, mask).logits
        close(found[:1], model(long).logits)
        close(found[1:][:, mask[1] != 0], model(short).logits)


def test_each_document_of_a_packed_row_has_its_own_length(model: Transformer) -> None:
    parts = [text(1, 12), text(1, 7, seed=1), text(1, 9, seed=2)]
    at = torch.cat([torch.arange(part.shape[1]) for part in parts])[None]
    packed = model(torch.cat(parts, dim=1), positions=at).logits
    close(packed, torch.cat([model(part).logits for part in parts], dim=1))


def so_far(model: Transformer, ids: Tensor, sizes: list[int], mask: Tensor | None = None) -> None:
    """Each call with a cache gives what one without gives for all tokens so far."""
    cache, end = Cache(), 0
    for size in sizes:
        end += size
        seen = None if mask is None else mask[:, :end]
        got = model(ids[:, end - size : end], seen, cache=cache).logits
        expected = model(ids[:, :end], seen).logits[:, -size:]
        here = slice(None) if seen is None else seen[:, -size:] != 0
        close(got[here], expected[here])
        assert cache.length == end


@pytest.mark.parametrize("sizes", [[1] * 12, [8, 1, 1], [5, 2, 5], [9, 1], [12]], ids=str)
def test_gen_02_a_cache_across_the_length(model: Transformer, sizes: list[int]) -> None:
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            so_far(model, text(2, 12), sizes)


@torch.no_grad()
def test_a_padded_cache_across_the_length(model: Transformer) -> None:
    """Row 0 grows too long at token 9, row 1 at token 12, row 2 never."""
    mask = torch.ones(3, 12, dtype=torch.int64)
    mask[1, :3] = mask[2, :4] = mask[2, 6] = 0
    so_far(model, text(3, 12), [6, 1, 1, 1, 1, 1, 1], mask)
    so_far(model, text(3, 12), [7, 5], mask)


@torch.no_grad()
def test_rows_chosen_after_the_length_was_crossed(model: Transformer) -> None:
    ids, rows, cache = text(2, 12), torch.tensor([1, 1, 0]), Cache()
    model(ids[:, :6], cache=cache)
    model(ids[:, 6:10], cache=cache)
    cache.select(rows)
    close(model(ids[rows][:, 10:], cache=cache).logits, model(ids).logits[rows][:, 10:])


@torch.no_grad()
def test_a_translators_cache_across_the_length() -> None:
    model, source, ids = build(turned(post_norm_translator())), text(2, 5), text(2, 12, seed=1)
    states, cache = model.encode(source), Cache()
    for start, end in ((0, 7), (7, 9), (9, 12)):
        got = model(encoder_hidden=states, decoder_input_ids=ids[:, start:end], cache=cache).logits
        close(got, model(source, decoder_input_ids=ids[:, :end]).logits[:, start:])


@torch.no_grad()
def test_a_call_that_raises_at_the_crossing_leaves_the_cache_as_it_was(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, cache = text(1, 10), Cache()
    model(ids[:, :6], cache=cache)
    assert model.decoder is not None
    with monkeypatch.context() as broken:
        broken.setattr(model.decoder.layers[1], "forward", stumble)
        with pytest.raises(RuntimeError, match="stumbled"):
            model(ids[:, 6:], cache=cache)
    assert cache.length == 6
    close(model(ids[:, 6:], cache=cache).logits, model(ids).logits[:, 6:])


def stumble(*_: object) -> None:
    raise RuntimeError("stumbled")
