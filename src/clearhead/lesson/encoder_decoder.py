"""Topic `encoder-decoder`: the shapes inside a real small model, and who attends to whom in it."""

from typing import Any

import torch
from torch import Tensor

from clearhead.config import Attention, FeedForward, Layer, Positions, Stack, TransformerConfig
from clearhead.lesson.page import Page, Step
from clearhead.lesson.threads import one_thread
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap

SOURCE, TARGET = ("the", "cat", "sat", "down"), ("<s>", "die", "Katze")
DIM, HEADS, HIDDEN = 12, 2, 24
LETTERS = {
    **dict.fromkeys(("q", "heads"), "B H Q E"),
    **dict.fromkeys(("k", "v"), "B H K E"),
    **dict.fromkeys(("scores", "weights"), "B H Q K"),
    "hidden": "B T F",
    "logits": "B T V",
}


class Listener(Tap):
    """Keeps every number that passes, by its full address; computes scores and weights from q and k."""

    def __init__(self, heard: dict[str, Tensor], place: str = ""):
        self.heard, self.place = heard, place

    def at(self, name: str) -> "Listener":
        return Listener(self.heard, f"{self.place}{name}.")

    def __call__(self, site: str, value: Any) -> Any:
        self.heard[self.place + site] = value
        return value

    def product(self, q: Any, k: Any, v: Any, weigh: Any) -> None:
        self("scores", weigh.scores(q, k))
        self("weights", weigh.weights(q, k))


@one_thread()
def page() -> Page:
    """One encoder layer and one decoder layer with random weights (Vaswani et al. 2017, figure 1)."""
    model = small_model()
    source, target = torch.arange(len(SOURCE))[None], torch.arange(len(TARGET))[None]
    heard = _run(model, source, target)
    return Page(
        topic="encoder-decoder",
        title="Encoder and decoder: who attends to whom",
        steps=(
            *_who(heard),
            Step(
                name="changes",
                words="Another token at the end of a text: do encoder states and logits change?",
                value=_changes(model, source, target),
                note="A new last source token reaches everything. A new last target token reaches only its own row.",
            ),
            Step(
                name="shapes",
                words=f"Every site: B = 1, D = {DIM}, H = {HEADS}, E = {DIM // HEADS}, F = {HIDDEN}.",
                value=_shapes(heard),
                note=(
                    "Take away the encoder and the cross-attention, and train the masked stack to predict the next "
                    "token: that is today's language models."
                ),
            ),
        ),
    )


def small_model() -> Transformer:
    """One layer each, random weights, the same every time; the caller's generator does not move."""
    ours, causal = Attention(heads=HEADS), Attention(heads=HEADS, causal=True)
    thought = FeedForward(dim=HIDDEN)
    where = Positions(kind="interleaved")
    encoder = Stack(layers=(Layer(self_attention=ours, feed_forward=thought),), vocab=5, positions=where)
    decoding = Layer(self_attention=causal, cross_attention=ours, feed_forward=thought)
    decoder = Stack(layers=(decoding,), vocab=7, positions=where)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Transformer(TransformerConfig(dim=DIM, encoder=encoder, decoder=decoder)).eval()


@torch.no_grad()
def _run(model: Transformer, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    heard: dict[str, Tensor] = {}
    model(source, decoder_input_ids=target, tap=Listener(heard))
    return heard


def _who(heard: dict[str, Tensor]) -> tuple[Step, ...]:
    def step(name: str, site: str, words: str, queries: tuple[str, ...], keys: tuple[str, ...]) -> Step:
        attended = (heard[f"{site}.weights"] > 0)[0].any(dim=0)  # [Q K], by any head
        return Step(name=name, shape="Q K", words=words, value=attended.numpy(), labels=(queries, keys))

    return (
        step(
            "encoder_self",
            "encoder.0.self",
            "Encoder: the source is complete, so every token attends in both directions.",
            SOURCE,
            SOURCE,
        ),
        step(
            "decoder_self",
            "decoder.0.self",
            "Decoder: position i attends to 0..i, since the rest is not written yet.",
            TARGET,
            TARGET,
        ),
        step(
            "decoder_cross",
            "decoder.0.cross",
            "Cross-attention: queries from the decoder, keys and values from the encoder.",
            TARGET,
            SOURCE,
        ),
        Step(
            name="cross_weights",
            shape="H Q K",
            words="Its weights: each row mixes the source. Untrained, they mean nothing yet.",
            value=heard["decoder.0.cross.weights"][0].numpy(),
            labels=(tuple(f"head {i}" for i in range(HEADS)), TARGET, SOURCE),
        ),
    )


def _changes(model: Transformer, source: Tensor, target: Tensor) -> dict[str, list[Any]]:
    def replaced(ids: Tensor) -> Tensor:
        return torch.cat([ids[:, :-1], ids[:, -1:] + 1], dim=1)

    before = _run(model, source, target)
    after = [_run(model, replaced(source), target), _run(model, source, replaced(target))]

    def changed(site: str, position: int | slice) -> list[bool]:
        return [not torch.equal(run[site][0, position], before[site][0, position]) for run in after]

    rows = {f"logits[{token}]": changed("logits", i) for i, token in enumerate(TARGET)}
    return {
        "replaced": ["last source token", "last target token"],
        "encoder": changed("encoder.final", slice(None)),
        **rows,
    }


def _shapes(heard: dict[str, Tensor]) -> dict[str, list[str]]:
    return {
        "site": list(heard),
        "letters": [LETTERS.get(site.rsplit(".", 1)[-1], "B T D") for site in heard],
        "shape": [" ".join(map(str, value.shape)) for value in heard.values()],
    }
