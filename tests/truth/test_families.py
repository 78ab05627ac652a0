"""Every family against its home library: the same logits from the same files, and files that it can read again."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import GenerationMixin

import clearhead
from clearhead.model.cache import Cache
from truth.cases import LIMIT, Case, case, close, difference, result, text
from truth.homes import HOMES

# What the home library computes in float32 whatever the type of the model: rms norms, tables of sinusoids.
ONLY_FLOAT32 = ("llama", "mistral", "qwen", "phi3", "olmo2", "gemma", "t5", "mt5", "flan", "marian", "m2m")
ONLY_FLOAT32 += ("modernbert",)
UNUSED = "pooler|vision_tower|multi_modal_projector"  # parts that the home library has and we leave out
READERS = {"t5, encoder", "mpnet", *(name for name in HOMES if "bert" in name)}


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


each = pytest.mark.parametrize("name", HOMES)
each_of_text = pytest.mark.parametrize("name", [name for name in HOMES if not name.startswith("whisper")])


@each
@pytest.mark.parametrize("tokens", [9, 44])
def test_ckp_01_logits_are_the_home_librarys(name: str, tokens: int) -> None:
    c = case(name)
    inputs = c.inputs(text(2, tokens))
    close(c.mine(**inputs), c.theirs(**inputs))


@each
def test_special_tokens(name: str) -> None:
    c = case(name)
    mine, theirs = c.ours.config, c.home.config
    bos = getattr(theirs, "bos_token_id", None)
    assert (mine.pad, mine.bos, mine.eos) == (theirs.pad_token_id, bos, theirs.eos_token_id)
    if c.two:
        assert mine.start == getattr(c.home, "generation_config", theirs).decoder_start_token_id


@each
def test_token_types(name: str) -> None:
    c = case(name)
    stack = c.ours.config.encoder
    if stack is None or stack.token_types < 2:
        return
    ids = text(2, 9)
    types = torch.arange(9).expand(2, 9) // 4
    close(c.mine(input_ids=ids, token_type_ids=types), c.theirs(input_ids=ids, token_type_ids=types))


@each_of_text
def test_right_padding(name: str) -> None:
    c = case(name)
    ids, mask = text(2, 23), torch.ones(2, 23, dtype=torch.int64)
    ids[1, 15:], mask[1, 15:] = c.pad, 0
    inputs = c.inputs(ids, mask)
    keep = torch.ones(2, 22 if c.two else 23, dtype=torch.bool) if c.two else mask.bool()
    close(c.mine(**inputs)[keep], c.theirs(**inputs)[keep])


@each_of_text
def test_pos_06_left_padding_is_the_unpadded_sample(name: str) -> None:
    c = case(name)
    ids, mask = text(2, 23), torch.ones(2, 23, dtype=torch.int64)
    ids[1, :8], mask[1, :8] = c.pad, 0
    inputs = c.inputs(ids, mask)
    alone = {key: value[1:] for key, value in inputs.items() if key != "attention_mask"}
    alone["input_ids"] = alone["input_ids"][:, 8:]
    mine = c.mine(**inputs)[1:]
    close(mine if c.two else mine[:, 8:], c.theirs(**alone))


@each
def test_cached_decoding(name: str) -> None:
    """Each call gives what an uncached one on all tokens so far does."""
    c = case(name)
    if name in READERS:
        return
    inputs, cache, parts, truth = c.inputs(text(2, 44)), Cache(), [], []
    key = "decoder_input_ids" if c.two else "input_ids"
    for chunk in inputs[key].split([5, 1, 1, 20, inputs[key].shape[1] - 27], dim=1):
        parts.append(c.mine(**{**inputs, key: chunk}, cache=cache))
        truth.append(c.theirs(**{**inputs, key: inputs[key][:, : cache.length]})[:, -chunk.shape[1] :])
    close(torch.cat(parts, dim=1), torch.cat(truth, dim=1))


def both(c: Case, dtype: torch.dtype, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours and theirs, loaded in another type."""
    ours = clearhead.load(c.folder, dtype=dtype)
    home = type(c.home).from_pretrained(c.folder, dtype=dtype).eval()
    inputs = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
    return result(ours(**inputs)), Case(home, ours, c.folder).theirs(**inputs)


@each
def test_float64(name: str) -> None:
    c = case(name)
    mine, theirs = both(c, torch.float64, c.inputs(text(2, 44)))
    assert mine.dtype == torch.float64
    close(mine, theirs, LIMIT if name.startswith(ONLY_FLOAT32) else 1e-10)


@each
def test_bf16(name: str) -> None:
    """As near to the home library as two runs in bf16 can be, and no further from float32 than it is."""
    c = case(name)
    inputs = c.inputs(text(2, 44))
    truth = c.theirs(**inputs)
    mine, theirs = (logits.float() for logits in both(c, torch.bfloat16, inputs))
    close(mine, theirs, 0.2)
    assert difference(mine, truth) < 1.5 * difference(theirs, truth) + 0.02


@pytest.mark.parametrize("name", [name for name in HOMES if name not in READERS and "plain" not in name])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_generation(name: str, num_beams: int) -> None:
    c = case(name)
    ids, mask = text(3, 9), torch.ones(3, 9, dtype=torch.int64)
    padded = slice(-2, None) if c.two else slice(0, 2)
    ids[1, padded], mask[1, padded] = c.pad, 0
    c.home.generation_config.forced_eos_token_id = None
    more: dict[str, Any] = {
        "suppress_tokens": [c.pad],
        "do_sample": False,
        "num_beams": num_beams,
    }  # ours never writes padding
    if "t5" in name:
        more["use_cache"] = False  # theirs has room for as many layers as the encoder has
    source = {key: value for key, value in c.inputs(ids, mask).items() if key != "decoder_input_ids"}
    theirs = GenerationMixin.generate(c.home, **source, max_new_tokens=14, **more)
    assert torch.equal(clearhead.generate(c.ours, **source, max_new_tokens=14, num_beams=num_beams), theirs)


@each
def test_save_goes_back_home(name: str, tmp_path: Path) -> None:
    c = case(name)
    clearhead.save(c.ours, tmp_path / "m")
    before, after = (load_file(folder / "model.safetensors") for folder in (c.folder, tmp_path / "m"))
    assert after.keys() == before.keys() - set(c.ours.home.left)
    assert all(torch.equal(before[key], after[key]) and before[key].dtype == after[key].dtype for key in after)
    again, info = type(c.home).from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not [key for values in info.values() for key in values if not re.search(UNUSED, key)], info
    inputs = c.inputs(text(2, 9))
    assert torch.equal(Case(again.eval(), c.ours, tmp_path).theirs(**inputs), c.theirs(**inputs))
    once_more = clearhead.load(tmp_path / "m")
    assert once_more.config == c.ours.config
    assert torch.equal(result(once_more(**inputs)), c.mine(**inputs))
