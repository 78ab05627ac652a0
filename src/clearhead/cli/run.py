"""Verbs that run a model: translate, complete and classify."""

import json
from typing import Annotated, Any

import typer

from clearhead.cli.options import Device, Dtype, Json, Model, Threads, app, each_line, load, use


@app.command()
def translate(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="By default standard input, line by line.")] = None,
    src_lang: Annotated[str | None, typer.Option(help="Language of the text, such as de_DE, de or deu_Latn.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Language to write, for models of many languages.")] = None,
    num_beams: Annotated[int, typer.Option(help="Hypotheses kept; 1 = greedy.", min=1)] = 1,
    max_new_tokens: Annotated[int | None, typer.Option(help="Longest translation, in tokens.", min=1)] = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """Translate a text, or every line of standard input.

    Example: clearhead translate runs/demo "three hundred and twenty-one"
    """
    use(threads)
    loaded = load(model, device, dtype)
    from clearhead.generation.text import translate

    options: dict[str, Any] = {"src_lang": src_lang, "tgt_lang": tgt_lang, "num_beams": num_beams}
    options |= {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    each_line(text, lambda line: translate(loaded, line, **options))


@app.command()
def complete(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="By default standard input, line by line.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens to add at most.", min=1)] = 64,
    temperature: Annotated[float, typer.Option(help="0 = always the likeliest token.", min=0.0)] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample from the likeliest tokens that hold this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.", min=0)] = 0,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """Let a language model go on with a text, or with every line of standard input.

    Example: clearhead complete runs/lm "three hundred and twenty-one = "
    """
    use(threads)
    loaded = load(model, device, dtype)
    import torch

    from clearhead.generation.text import complete

    torch.manual_seed(seed)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "do_sample": temperature > 0}
    if temperature > 0:
        options |= {"temperature": temperature, "top_p": top_p}
    each_line(text, lambda line: complete(loaded, line, **options))


@app.command()
def classify(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="By default standard input, line by line.")] = None,
    as_json: Json = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """Say the label of a text, or of every line of standard input, with the probability of each.

    Example: clearhead classify runs/reviews "a film that I would see again"
    """
    use(threads)
    loaded = load(model, device, dtype)
    from clearhead.model.classify import classify

    def said(line: str) -> str:
        (found,) = classify(loaded, line)
        return json.dumps(found, ensure_ascii=False) if as_json else "  ".join(f"{a} {b:.1%}" for a, b in found.items())

    each_line(text, said)
