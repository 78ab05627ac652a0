"""A model that somebody else trained and wrote down: its greedy text, character for character."""

import torch

import clearhead
import shared
from truth.llama2c import model_of, pieces_of

# What the project that published the model expects of it, greedily.
EXPECTED = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a "
    "big, red ball. She wanted to play with it, but it was too high.\n"
    "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I want to "
    "play with your ball, but I can't find it.\"\n"
    "Lily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to do.\"\n"
    "Lily didn't want to help her mom, so she"
)


@torch.no_grad()
def test_stories260k_tells_its_story() -> None:
    folder = shared.path("data/stories260K")
    model, pieces = model_of(folder / "stories260K.bin"), pieces_of(folder / "tok512.bin", 512)
    assert sum(p.numel() for p in model.parameters()) == 260_032
    ids = clearhead.generate(model, torch.tensor([[1]]), max_new_tokens=200)
    text = b"".join(pieces[i] for i in ids[0, 1:].tolist()).decode().replace("<0x0A>", "\n")
    assert text.removeprefix(" ") == EXPECTED
