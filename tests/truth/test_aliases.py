"""What our recordings give by the names of TransformerLens is what TransformerLens gives, where it is installed."""

from importlib.util import find_spec
from typing import Any

import pytest
import torch

from clearhead.lens.aliases import aliases
from clearhead.lens.record import record
from truth.cases import Case, case, text

pytestmark = [
    pytest.mark.skipif(find_spec("transformer_lens") is None, reason="transformer_lens is not installed"),
    pytest.mark.filterwarnings("ignore"),  # what it warns about is not ours to mend
]
# It reads the other families with another class, or not at all.
NAMES = ["gpt2", "llama", "llama, biases", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "olmo2", "phi3"]
NAMES += ["gpt_neox", "gpt_neox, one after the other", "bert", "roberta", "t5", "flan-t5"]
HIDDEN = -1e30  # below it, scores of hidden keys: a large number there, -inf here


def theirs(c: Case, inputs: dict[str, torch.Tensor]) -> Any:
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    home = type(c.home).from_pretrained(c.folder, attn_implementation="eager").eval()
    bridge = build_bridge_from_module(home, architecture=type(home).__name__, hf_config=home.config)
    more = {"decoder_input": inputs["decoder_input_ids"]} if c.two else {}
    return bridge.run_with_cache(inputs["input_ids"], return_type="logits", **more)[1]


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_recordings_are_transformerlens(name: str) -> None:
    c = case(name)
    inputs = c.inputs(text(2, 44))
    cache = theirs(c, inputs)
    with record(c.ours, "*") as seen:
        c.ours(**inputs)
    shared = [alias for alias in aliases(c.ours.config) if alias in cache.keys()]  # noqa: SIM118
    assert len(shared) > 10 * len(c.ours.config.stacks)
    for alias in shared:
        if alias.endswith("hook_attn_scores"):
            if "bert" not in name:  # of these it gives the weights by that name
                kept = seen[alias] > HIDDEN
                assert torch.allclose(seen[alias][kept], cache[alias][kept], atol=1e-4), alias
        else:
            assert seen[alias].shape == cache[alias].shape, alias
            assert torch.allclose(seen[alias], cache[alias], atol=2e-5 * float(cache[alias].abs().max())), alias
