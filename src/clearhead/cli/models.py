"""Verbs that look into a model, or at its files: describe, look, explain, verify, convert."""

from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.options import Device, Dtype, Json, Model, Threads, app, colour, dtype_of, load, show, use, width


@app.command()
def describe(model: Model, as_json: Json = False) -> None:
    """What a model is made of: layers, settings, parameters, addresses to look at.

    Example: clearhead describe runs/demo
    """
    loaded = load(model, "cpu", None)
    from clearhead.model.describe import count, describe
    from clearhead.tap import sites

    if as_json:
        found = {"parameters": count(loaded), "config": loaded.config.to_dict(), "sites": sites(loaded.config)}
        show(found)
    else:
        print(describe(loaded))


@app.command()
def look(
    model: Model,
    text: Annotated[str, typer.Argument(help="What the model reads.")],
    to: Annotated[str | None, typer.Option(help="What it is to write; by default what it writes itself.")] = None,
    against: Annotated[str | None, typer.Option(help="Another text: how far does each head move?")] = None,
    against_model: Annotated[str | None, typer.Option(help="Another model that reads it.", metavar="MODEL")] = None,
    heads: Annotated[list[str] | None, typer.Option(help="Heads to show one by one, as layer.head.")] = None,
    stat: Annotated[
        str, typer.Option(help="entropy, effective_keys, max, distance, self, previous, first.")
    ] = "entropy",
    top: Annotated[int, typer.Option(help="Weights to name per token where a map would be too large.", min=1)] = 8,
    svg: Annotated[Path | None, typer.Option(help="Write the picture as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the picture as PNG.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Write the picture as PDF.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to click through, which needs no network.")] = None,
    as_json: Json = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """Where every head of a model looks in a text: a table of all heads, or a map of those asked for.

    Example: clearhead look runs/demo "three hundred and seven" --heads 0.2

    Two texts, or two models: clearhead look runs/demo "three hundred and seven" --against "three hundred and nine"
    """
    use(threads)
    chosen = [_head(words) for words in heads or []]
    files = _files(svg=svg, png=png, pdf=pdf)
    pages = [] if html is None else [_there(html)]
    both = against is not None or against_model is not None
    if both and files:
        raise ValueError(f"--{next(iter(files))} draws one look; of two, --html FILE makes a page")
    loaded = load(model, device, dtype)
    from clearhead.view.look import as_text, look

    found = look(loaded, text, to, heads=chosen, stat=stat, top=top)
    if both:
        other = loaded if against_model is None else load(against_model, device, dtype)
        names = None if against_model is None or against is not None else (model, against_model)
        found = found.against(look(other, text if against is None else against, to), names)
    _draw(found, files)
    for page in pages:
        page.write_text(found.html(), encoding="utf-8")
    if as_json:
        show(found.to_dict())
    elif files or pages:
        print("\n".join(f"{path} shows it" for path in [*files.values(), *pages]))
    else:
        print(as_text(found, width(), colour()))


def _files(**paths: Path | None) -> dict[str, Path]:
    """The figures that are asked for, by kind; refused before anything runs if they could not be written."""
    files = {kind: path for kind, path in paths.items() if path is not None}
    for kind, path in files.items():
        from clearhead.view.figures import writable

        writable(path, kind)
    return files


def _there(path: Path) -> Path:
    """The path, if it can be written."""
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; make it first")
    return path


def _draw(found: Any, files: dict[str, Path]) -> None:
    if files:
        from clearhead.view.figures import plot, save

        figure = plot(found)
        for kind, path in files.items():
            save(figure, path, kind)


@app.command()
def explain(
    model: Model,
    text: Annotated[str, typer.Argument(help="What the model reads.")],
    address: Annotated[str, typer.Argument(help="An attention's weights, such as decoder.2.self.weights.")],
    head: Annotated[int, typer.Option(help="Which head, from 0.")],
    query: Annotated[int, typer.Option(help="Which token looks, from 0.")],
    key: Annotated[int, typer.Option(help="Which token is looked at, from 0.")],
    to: Annotated[str | None, typer.Option(help="What an encoder-decoder is to write.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown with formulas in LaTeX.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page of its own.")] = None,
    as_json: Json = False,
) -> None:
    """Work one weight out from the embeddings on: every number, its formula, and where it stands in the code.

    MODEL "lesson" is the lesson's worked example, whose words are the, cat and sat. Example: clearhead explain lesson
    "the cat sat" encoder.0.self.weights --head 0 --query 0 --key 2
    """
    from clearhead.lesson.in_model import worked_example

    loaded = worked_example() if model == "lesson" else load(model, "cpu", None)
    from clearhead.lens.explanation import explain
    from clearhead.view.explained import to_html, to_markdown

    try:
        found = explain(loaded, text if to is None else (text, to), address, head=head, query=query, key=key)
    except IndexError as error:
        raise ValueError(error) from error
    if html is not None:
        html.write_text(to_html(found), encoding="utf-8")
        print(f"{html} shows it")
    elif as_json:
        show(found.to_dict())
    else:
        print(to_markdown(found) if markdown else found)


def _head(words: str) -> tuple[int, int]:
    layer, _, head = words.partition(".")
    if not (layer.isdigit() and head.isdigit()):
        raise ValueError(f"heads {words!r} is no head; write layer.head, counted from 0, such as 5.3")
    return int(layer), int(head)


@app.command()
def verify(
    model: Model,
    tokens: Annotated[int, typer.Option(help="Length of the text that is compared.", min=1)] = 40,
    as_json: Json = False,
) -> None:
    """Compare a checkpoint's logits with its home library's, and with those stored when it was converted.

    Exit status 0 = equal, 1 = different, 2 = could not run. Example: clearhead verify models/mine
    """
    from clearhead.checker.verify import verify_of

    text, document, status = verify_of(model, tokens)
    print(document if as_json else text)
    raise typer.Exit(status)


@app.command()
def convert(
    source: Model,
    out: Annotated[Path, typer.Argument(help="Folder to write; replaced when the new one is complete.")],
    dtype: Dtype = None,
) -> None:
    """Write any checkpoint that can be read, also GGUF and pickled weights, as a folder of safetensors.

    Example: clearhead convert model.gguf models/mine --dtype bfloat16
    """
    from clearhead.families.convert import convert

    convert(source, out, dtype=dtype_of(dtype))
