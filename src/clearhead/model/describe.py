"""A model in words: its parts folded, its parameters counted, the addresses at which it can be looked into."""

from dataclasses import fields
from itertools import groupby
from textwrap import shorten

from torch import nn

from clearhead import config
from clearhead.model.transformer import Transformer
from clearhead.tap import sites

SIDES = {(True, True): "encoder-decoder", (True, False): "encoder", (False, True): "decoder"}


def describe(model: Transformer) -> str:
    """Kind and size, the config tree with equal layers folded ("6 x layer"), parameters per part, addresses."""
    form = model.config
    kind = SIDES[form.encoder is not None, form.decoder is not None]
    total, size = count(model), sum(p.numel() * p.element_size() for p in model.parameters())
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    lines = [f"{kind}, {total:,} parameters, {_bytes(size)} as {dtype}, width {form.dim}, {form.norm.kind} norm", ""]
    for name, stack in form.stacks.items():
        module = model.encoder if name == "encoder" else model.decoder
        assert module is not None
        lines += _stack(name, stack, module)
    if form.shared_embeddings:
        lines.append("the decoder's table is the encoder's, and counts once in the total")
    if model.head is not None and form.head is not None:
        lines.append(_line("head", _head(form.head), count(model.head)))
    found = sites(form)
    lines += ["", f"{len(found)} addresses to look at, such as {', '.join(_samples(found))}"]
    return "\n".join(lines)


def count(module: nn.Module) -> int:
    """Parameters of a module; one that is shared counts once."""
    return sum(p.numel() for p in module.parameters())


def _stack(name: str, form: config.Stack, module: nn.Module) -> list[str]:
    layers = module.get_submodule("layers")
    rest = count(module) - count(layers)
    said = f"vocabulary {form.vocab:,}" if form.vocab else "sound"
    lines = [_line(name, f"{len(form.layers)} layer{'s' * (len(form.layers) > 1)}, {said}", count(module))]
    tables = _said(form, leave=("layers", "vocab"))
    lines.append(_line("  embedding, positions, norms", tables, rest))
    first = 0
    for layer, run in groupby(form.layers):
        times = len(list(run))
        one = layers.get_submodule(str(first if form.shared is None else form.shared[first]))
        words = [f"{layer.norm_place} norm", *(part for part in ("parallel", "bare") if getattr(layer, part))]
        lines.append(_line(f"  {times} x layer", ", ".join(words), count(one)))
        for part in ("self_attention", "cross_attention", "feed_forward"):
            settings = getattr(layer, part)
            if settings is not None:
                lines.append(_line(f"    {part}", _said(settings), count(one.get_submodule(part))))
        first += times
    return lines


def _head(form: config.AnyHead) -> str:
    if isinstance(form, config.Head):
        tied = "the embedding's matrix" if form.tied else "a matrix of its own"
        return ", ".join(filter(None, [tied, _said(form, leave=("tied",))]))
    labels = ""
    if isinstance(form, config.TextClassifier | config.TokenClassifier):
        labels = f"{len(form.labels)} labels: {shorten(', '.join(form.labels), 60)}"
    return ", ".join(filter(None, [type(form).__name__, labels, _said(form, leave=("labels",))]))


def _said(form: object, leave: tuple[str, ...] = ()) -> str:
    """The settings that differ from the defaults, in words."""
    said: list[str] = []
    for f in fields(form):  # pyright: ignore[reportArgumentType]
        value = getattr(form, f.name)
        if f.name in leave or value == f.default:
            continue
        shown = f"{value:.6g}" if isinstance(value, float) else shorten(str(value), 40, placeholder=" ...)")
        inner = f"({_said(value)})" if hasattr(value, "__dataclass_fields__") else f" {shown}"
        said.append(f.name if value is True else f"{f.name}{inner}".removesuffix("()"))
    return ", ".join(said)


def _line(name: str, words: str, parameters: int) -> str:
    return f"{name:<31}{parameters:>13,}  {words}".rstrip()


def _samples(found: tuple[str, ...]) -> list[str]:
    wanted = (".cross.weights", ".self.weights", ".feed_forward.out", ".residual")
    return [
        next(site for site in reversed(found) if site.endswith(w)) for w in wanted if any(s.endswith(w) for s in found)
    ]


def _bytes(size: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000  # pyright: ignore[reportAssignmentType]
    return f"{size:.4g} GB"
