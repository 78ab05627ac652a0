"""The home library's own T5, BART, Marian and GPT-2, tiny, trained for a minute each to spell numbers in German.

`python tests/truth/trained.py` trains what is not there yet and prints how many unseen numbers each one gets right. The
folders are kept beside other caches, under a name that changes with this file and with the library's version.
"""

import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from clearhead.demo import numbers
from clearhead.demo.spell import spell
from clearhead.demo.task import BEGIN, END, EQUALS, PAD, Task
from clearhead.text.batch import pad

WORDS = Task(kind="lm").tokenizer  # one vocabulary for both languages
STEPS, BATCH, RATE, LIMIT = 800, 64, 3e-3, 10_000  # numbers below LIMIT
Batch = dict[str, Tensor]


SIDE = {"layers": 2, "attention_heads": 4, "ffn_dim": 128}


def ids(**changes: Any) -> dict[str, Any]:
    return {"vocab_size": len(WORDS), "pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END, **changes}


def t5() -> Any:
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    return hf.T5ForConditionalGeneration(hf.T5Config(**ids(**sizes, decoder_start_token_id=PAD)))


def stacks() -> dict[str, Any]:
    sides = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in SIDE.items()}
    return ids(**sides, d_model=64, max_position_embeddings=64, decoder_start_token_id=BEGIN, forced_eos_token_id=None)


HOMES: dict[str, Callable[[], Any]] = {
    "t5": t5,
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**stacks())),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**stacks(), scale_embedding=True)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**ids(), n_embd=64, n_layer=3, n_head=4, n_positions=64)),
}


def source(name: str, drawn: Any) -> Batch:
    """What the model reads: English and end, or in one text with the answer, "English = ", padded on the left."""
    texts = [spell(int(n), "en") for n in drawn]
    if name == "gpt2":
        rows, mask = pad([WORDS.encode(text + EQUALS) for text in texts], PAD, "left")
    else:
        rows, mask = pad([[*WORDS.encode(text), END] for text in texts], PAD)
    return {"input_ids": rows, "attention_mask": mask}


def lesson(name: str, drawn: Any) -> Batch:
    """What it learns from: German and end as labels."""
    answers = [[*WORDS.encode(spell(int(n), "de"))[1:], END] for n in drawn]
    if name != "gpt2":
        labels, mask = pad(answers, PAD)
        return {**source(name, drawn), "labels": labels.masked_fill(mask == 0, -100)}
    asked = [WORDS.encode(spell(int(n), "en") + EQUALS) for n in drawn]
    rows, mask = pad([a + b for a, b in zip(asked, answers, strict=True)], PAD)
    starts = torch.tensor([len(a) for a in asked])[:, None]
    labels = rows.masked_fill((mask == 0) | (torch.arange(rows.shape[1]) < starts), -100)
    return {"input_ids": rows, "attention_mask": mask, "labels": labels}


def unseen(count: int) -> Any:
    """Numbers that no lesson has."""
    pool = numbers.members("hashed")
    return np.random.default_rng(1).choice(pool[pool < LIMIT], count, replace=False)


def answers(name: str, given: Tensor, written: Tensor) -> list[str]:
    """The texts in what `generate` gives."""
    return WORDS.decode_batch(written[:, given.shape[1] :] if name == "gpt2" else written[:, 1:])


def trained(name: str) -> Path:
    """The folder of a trained model; minutes the first time."""
    mark = zlib.crc32(Path(__file__).read_bytes() + hf.__version__.encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "clearhead-tests" / f"{name}-{mark:08x}"
    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        train(name).save_pretrained(folder)
    return folder


def train(name: str) -> Any:
    model, rng = HOMES[name]().train(), np.random.default_rng(0)
    pool = numbers.members("train")
    pool = pool[pool < LIMIT]
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS, pct_start=0.1)
    for _ in range(STEPS):
        model(**lesson(name, rng.choice(pool, BATCH))).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.eval()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or HOMES:
        model, drawn = type(HOMES[name]()).from_pretrained(trained(name)), unseen(200)
        given = source(name, drawn)
        found = answers(name, given["input_ids"], model.generate(**given, max_new_tokens=24, do_sample=False))
        right = sum(text == spell(int(n), "de") for text, n in zip(found, drawn, strict=True))
        print(f"{name}: {right} of {len(drawn)}")
