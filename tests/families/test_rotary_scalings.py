"""Scalings of rotary positions, as older files spell them."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers as hf

from clearhead.config import LongRope
from families.folders import config_of, said
from families.published import LLAMA_31_8B, PHI_3_128K, PHI_4_MINI


def home_reads(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the home library would write today."""
    (folder / "config.json").write_text(json.dumps(content))
    return json.loads(hf.AutoConfig.from_pretrained(folder).to_json_string(use_diff=False))


@pytest.mark.parametrize("name", ["longrope", "su", "yarn"])
def test_longrope_by_its_older_names(name: str, tmp_path: Path) -> None:
    content = PHI_3_128K | {"rope_scaling": PHI_3_128K["rope_scaling"] | {"type": name}}
    assert said(config_of(content)) == said(config_of(PHI_3_128K))
    if name != "su":  # at which today's home library stumbles
        assert said(config_of(home_reads(content, tmp_path))) == said(config_of(content))


def test_longrope_in_numbers() -> None:
    """32 times 4096 positions; on 48 of 64 pairs in the later model."""
    for content, fraction in ((PHI_3_128K, 1.0), (PHI_4_MINI, 0.75)):
        rotary = config_of(content).decoder.layers[0].self_attention.rotary
        assert rotary.fraction == fraction
        assert isinstance(rotary.scaling, LongRope)
        assert rotary.scaling.length == 4096
        assert rotary.scaling.attention_factor == pytest.approx(1.1902380714238083)
        assert (rotary.scaling.short[1], rotary.scaling.long[1]) == (1.02, 1.5)
    given = PHI_3_128K["rope_scaling"] | {"attention_factor": 1.5}
    scaling = config_of(PHI_3_128K | {"rope_scaling": given}).decoder.layers[0].self_attention.rotary.scaling
    assert scaling.attention_factor == 1.5


def test_the_trained_length_beside_the_scaling() -> None:
    """Where a family has it, it wins, as at home; elsewhere the key is not understood."""
    inside = PHI_3_128K["rope_scaling"] | {"original_max_position_embeddings": 1024}
    scaling = config_of(PHI_3_128K | {"rope_scaling": inside}).decoder.layers[0].self_attention.rotary.scaling
    assert scaling.length == 4096
    with pytest.raises(ValueError, match="sets original_max_position_embeddings=2048, which"):
        config_of(LLAMA_31_8B | {"original_max_position_embeddings": 2048})
