"""Cached = uncached, for every kind of model."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config import Positions
from clearhead.generation.generate import generate
from clearhead.generation.loop import begin
from clearhead.generation.options import Options
from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from generation.toys import decoder_only, encoder_decoder, ragged

MODELS = {
    "rotary": decoder_only,
    "learned": lambda: decoder_only(positions=Positions(kind="learned", count=40)),
    "sinusoids": lambda: decoder_only(positions=Positions(kind="halves")),
    "both, with a bias by distance": encoder_decoder,
}
ROWS = [[5, 6, 7, 4], [3, 8], [9, 10, 4]]


@pytest.fixture(params=MODELS)
def model(request: Any) -> Transformer:
    return MODELS[request.param]().double()


def run(model: Transformer, ids: Tensor, mask: Tensor, use_cache: bool) -> tuple[Tensor, list[Tensor]]:
    """The ids and every step's logits."""
    progress, _ = begin(model, ids, mask, Options(use_cache=use_cache))
    seen = []
    with torch.no_grad():
        for _ in range(8):
            seen.append(progress.logits())
            progress.append(seen[-1].argmax(-1))
    return progress.ids, seen


@pytest.mark.parametrize("side", ["left", "right"])
def test_gen_01_num_11_same_tokens_and_logits_with_and_without_cache(model: Transformer, side: str) -> None:
    ids, mask = ragged(ROWS, side)
    cached, logits = run(model, ids, mask, use_cache=True)
    uncached, plain = run(model, ids, mask, use_cache=False)
    assert torch.equal(cached, uncached)
    for one, other in zip(logits, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}], ids=str)
def test_gen_01_generate_with_and_without_cache(model: Transformer, options: dict[str, Any]) -> None:
    ids, mask = ragged(ROWS, "left")
    found = []
    for use_cache in (True, False):
        torch.manual_seed(5)
        found.append(generate(model, ids, mask, max_new_tokens=8, use_cache=use_cache, **options))
    assert torch.equal(*found)


def test_gen_02_in_one_go_or_in_two(model: Transformer) -> None:
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 9, 4, 8, 3]])
    both = model.encoder is not None

    def logits(ids: Tensor, cache: Cache) -> Tensor:
        return (model(source, decoder_input_ids=ids, cache=cache) if both else model(ids, cache=cache)).logits

    with torch.no_grad():
        whole, cache = logits(target, Cache()), Cache()
        parts = torch.cat([logits(target[:, :3], cache), logits(target[:, 3:], cache)], dim=1)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-10)


def test_gen_03_what_the_cache_holds_may_not_come_again() -> None:
    model, cache = encoder_decoder(), Cache()
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 9, 4]])
    model(source, decoder_input_ids=target, cache=cache)
    with pytest.raises(ValueError, match="begins with the 3 tokens that the cache already holds"):
        model(source, decoder_input_ids=torch.tensor([[2, 9, 4, 8]]), cache=cache)


def test_the_encoder_runs_once_and_the_prompt_is_read_once(model: Transformer) -> None:
    reads: dict[str, list[int]] = {"encoder": [], "decoder": []}
    for name in model.config.stacks:
        getattr(model, name).register_forward_hook(lambda _, args, __, name=name: reads[name].append(args[0].ids.shape))
    ids = torch.tensor([[5, 6, 7], [9, 10, 4]])
    generate(model, ids, num_beams=3, max_new_tokens=4, eos_token_id=())
    both = model.encoder is not None
    assert reads["encoder"] == ([(2, 3)] if both else [])
    assert reads["decoder"] == [(2, 1 if both else 3), (6, 1), (6, 1), (6, 1)]


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 0.15)])
def test_num_11_how_far_token_by_token_may_be_from_one_go(dtype: torch.dtype, bound: float) -> None:
    model, ids, cache = decoder_only().to(dtype), torch.tensor([[5, 6, 7, 4, 3, 9, 9, 8]]), Cache()
    with torch.no_grad():
        whole = model(ids).logits
        steps = torch.cat([model(ids[:, t : t + 1], cache=cache).logits for t in range(8)], dim=1)
    assert whole.abs().max() > 1
    torch.testing.assert_close(steps, whole, rtol=0, atol=bound)
