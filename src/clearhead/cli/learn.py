"""Verbs for learners: the lesson, one's own attention checked, the laws, the demo."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.options import Device, Json, Model, Threads, app, check_device, colour, show, use, width


@app.command()
def lesson(
    topic: Annotated[str, typer.Argument(help="attention, torch, heads, order, positions, mask, ...")] = "attention",
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser, to play with.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write it as one page that needs nothing else.")] = None,
    as_json: Json = False,
) -> None:
    """The worked example and what follows from it, step by step, with every number.

    Example: clearhead lesson mask
    """
    if html is not None or browse:
        _in_browser(topic, browse, html)
        return
    from clearhead.lesson import run

    print(run(topic, as_json, width(), colour()))


def _in_browser(topic: str, browse: bool, html: Path | None) -> None:
    from clearhead.view import learner

    if html is not None:
        print(f"{learner.write(html)} shows it")
    if browse:
        path, opened = learner.show(topic)
        print(f"{path} is open in the browser" if opened else f"no browser was found; open {path} in one")


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(help="Python files, or a folder of them.")],
    task: Annotated[str | None, typer.Option(help="sdpa, multi_head_attention, cross_attention, ...")] = None,
    call: Annotated[str | None, typer.Option(help='How to call it, such as "attend(Q, K, V, mask)".')] = None,
    mask: Annotated[str | None, typer.Option(help="keep, hide, add, none or lengths.")] = None,
    returns: Annotated[str | None, typer.Option(help="out, or out,weights, or weights,out.")] = None,
    lib: Annotated[str | None, typer.Option(help="torch or numpy.")] = None,
    make: Annotated[str | None, typer.Option(help="kv_cache: the start state, of B, H, maxlen, dk.")] = None,
    step: Annotated[str | None, typer.Option(help="kv_cache: one step over q, k, v, state.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every task that a file attempts.")] = False,
    seconds: Annotated[float, typer.Option(help="Time for one task.", min=0.1)] = 10.0,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a table for a spreadsheet instead of text.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again whenever a file is saved; Ctrl-C ends it.")
    ] = False,
) -> None:
    """Run your own attention code and name its mistake: exit status 0 = right, 1 = a mistake, 2 = could not run.

    Example: clearhead check my_attention.py
    """
    from clearhead.checker import Flags, run
    from clearhead.checker.watch import saved

    if as_json and as_csv:
        raise ValueError("--json and --csv are both given; choose one")
    flags = Flags(task, call, mask, returns, lib, make, step)
    for paths in saved(files) if watch else [files]:
        found = run(paths, flags, every, seconds)
        print(found.json if as_json else found.csv if as_csv else found.text, flush=True)
        if not watch:
            raise typer.Exit(found.status)


@app.command()
def exercise(
    task: Annotated[str, typer.Argument(help="sdpa, multi_head_attention, causal_mask, ...")] = "sdpa",
    folder: Annotated[str, typer.Option(help="Where to write it.")] = ".",
) -> None:
    """Write a file to fill in: a function's contract without its body, for `clearhead check`.

    Example: clearhead exercise sdpa
    """
    from clearhead.checker.exercise import write

    written = write(task, folder)
    print(f"{written} is yours to fill in; then: clearhead check {written}")


@app.command()
def laws(model: Model, as_json: Json = False) -> None:
    """Try the laws that any Transformer must keep: no look at the future, padding, cache, rows that sum to 1.

    Exit status 0 = all hold, 1 = one is broken, 2 = could not run. Example: clearhead laws runs/demo
    """
    from clearhead.checker.laws import laws_of

    text, document, status = laws_of(model)
    print(document if as_json else text)
    raise typer.Exit(status)


@app.command()
def demo(
    kind: Annotated[
        Literal["translation", "lm", "encoder"], typer.Option(help="What kind of model to train.")
    ] = "translation",
    to: Annotated[Literal["de", "fr"], typer.Option(help="Target language.")] = "de",
    target: Annotated[
        Literal["pieces", "letters"], typer.Option(help="Write the target in pieces or letter by letter.")
    ] = "pieces",
    positions: Annotated[
        Literal["sinusoidal", "none"], typer.Option(help="none: the encoder sees a bag of words.")
    ] = "sinusoidal",
    seed: Annotated[int, typer.Option(help="Seed of weights and data.", min=0)] = 0,
    steps: Annotated[int | None, typer.Option(help="Training steps; by default as many as it takes.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder to save in; replaced when the run has finished.")] = Path(
        "runs/demo"
    ),
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
) -> None:
    """Train a small Transformer in seconds: it learns to spell English numbers in German, from nothing.

    Example: clearhead demo --to fr --out runs/french
    """
    use(threads)
    check_device(device)
    from clearhead.demo.run import Plan, run
    from clearhead.demo.show import show as drawn
    from clearhead.demo.task import Task

    task = Task(kind=kind, to=to, units=target)
    result = run(Plan(task=task, positions=positions, seed=seed, steps=steps, device=device), out)
    show(result.report if as_json else drawn(result, out, width()))
