"""The table of docs/families.md: what each family sets, from the configs that its tiny models come to.

`python tests/truth/table.py` writes it into the page; a test compares.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from clearhead.config import Attention, Layer, Stack, TransformerConfig
from truth.cases import Case, case, difference, text
from truth.homes import HOMES

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
COLUMNS = "family norms positions attention feed-forward embedding head".split()  # noqa: SIM905


def table() -> str:
    """One row for each tiny model."""
    rows = [COLUMNS, ["---"] * len(COLUMNS), *(row(name, case(name).ours.config) for name in HOMES)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def row(name: str, config: TransformerConfig) -> list[str]:
    stack = config.decoder or config.encoder
    assert stack is not None
    layer = stack.layers[0]
    return [name, norms(config, stack, layer), positions(stack), attention(config, stack), forward(layer),
            embedding(config, stack), head(config)]  # fmt: skip


def norms(config: TransformerConfig, stack: Stack, layer: Layer) -> str:
    parts = [config.norm.kind, layer.norm_place, "parallel" * layer.parallel, "none before the first" * layer.bare]
    parts += ["after the embedding" * stack.norm_in, "at the end" * stack.norm_out]
    return ", ".join(filter(None, parts))


def positions(stack: Stack) -> str:
    found: list[str] = []
    if stack.positions is not None:
        offset = f" from row {stack.positions.offset}" if stack.positions.offset else ""
        found.append(stack.positions.kind + offset)
    if stack.relative_bias is not None:
        found.append("biases by bucket of distance")
    turns = {layer.self_attention.rotary for layer in stack.layers} - {None}
    for turn in sorted(turns, key=str):
        assert turn is not None
        part = f" on {turn.fraction:g} of a head" if turn.fraction < 1 else ""
        scaling = f", {type(turn.scaling).__name__.lower()}" if turn.scaling else ""
        found.append(f"rotary{part}{scaling}")
    if len(turns) > 1 and len(set(found)) == 1:
        found = [f"{found[0]}, {len(turns)} bases"]
    return "; ".join(found)


def attention(config: TransformerConfig, stack: Stack) -> str:
    forms = [layer.self_attention for layer in stack.layers]
    form: Attention = forms[0]
    local = sum(f.window is not None for f in forms)
    parts = [
        f"biases {form.bias}" if form.bias else "no biases",
        "grouped" if form.groups < form.heads else "",
        "" if form.scale is None else "no scale" if form.scale == 1 else "a scale of its own",
        f"norm of q and k per {form.qk_norm}" if form.qk_norm else "",
        "soft cap" if form.softcap else "",
        "" if stack.shared is None else "layers share their weights",
        "" if not local else "window" if local == len(forms) else "window in some layers",
    ]
    return ", ".join(filter(None, parts))


def forward(layer: Layer) -> str:
    form = layer.feed_forward
    return ", ".join(filter(None, [form.activation, "gated" * form.gated, "biases" if form.bias else "no biases"]))


def embedding(config: TransformerConfig, stack: Stack) -> str:
    parts = ["times the root of the width" if stack.embedding_scale != 1 else "", "narrow" * bool(stack.embedding_dim)]
    parts += ["shared by both stacks" * config.shared_embeddings, "token types" * bool(stack.token_types)]
    return ", ".join(filter(None, parts)) or "plain"


def head(config: TransformerConfig) -> str:
    form = config.head
    if form is None:
        return "none"
    parts = ["tied" if form.tied else "own matrix", "bias" * form.bias, "scaled" if form.scale != 1 else ""]
    parts += ["soft cap" if form.softcap else "", "dense layer and norm first" if form.dense else ""]
    return ", ".join(filter(None, parts))


@torch.no_grad()
def measured(c: Case) -> float:
    """The largest difference from the home library, of 2 x 44 tokens in float32, as if the largest logit were 5."""
    inputs = c.inputs(text(2, 44))
    return difference(c.mine(**inputs), c.theirs(**inputs))


def with_table(page: str) -> str:
    """The page with today's table."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
    for name in HOMES:
        print(f"{name:32} {measured(case(name)):.1e}")
