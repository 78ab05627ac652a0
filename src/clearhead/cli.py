"""The command line. Each verb is one function that lives elsewhere; torch is imported only by a verb that needs it."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

app = typer.Typer(
    help="The Transformer you can see through.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Model = Annotated[Path, typer.Argument(help="The folder of a saved model.", metavar="MODEL")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, mps.")]
Dtype = Annotated[str | None, typer.Option(help="Type of the weights: float32, bfloat16, float16, float64.")]
Threads = Annotated[int | None, typer.Option(help="Processor threads to use.", min=1)]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """The Transformer you can see through.

    Example: clearhead lesson
    """
    if version:
        from clearhead import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def lesson(
    topic: Annotated[str, typer.Argument(help="attention, torch, heads, order, positions, mask, ...")] = "attention",
    as_json: Json = False,
) -> None:
    """The worked example and what follows from it, step by step, with every number.

    Example: clearhead lesson mask
    """
    from clearhead.lesson import run

    print(run(topic, as_json, _width(), _colour()))


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
) -> None:
    """Run your own attention code and name its mistake: exit status 0 = right, 1 = a mistake, 2 = could not run.

    Example: clearhead check my_attention.py
    """
    from clearhead.checker import Flags, run

    text, document, status = run(files, Flags(task, call, mask, returns, lib, make, step), every, seconds)
    print(document if as_json else text)
    raise typer.Exit(status)


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
) -> None:
    """Train a small Transformer in seconds: it learns to spell English numbers in German, from nothing.

    Example: clearhead demo --to fr --out runs/french
    """
    _use(threads)
    from clearhead.demo.run import Plan, run
    from clearhead.demo.show import show
    from clearhead.demo.task import Task

    task = Task(kind=kind, to=to, units=target)
    result = run(Plan(task=task, positions=positions, seed=seed, steps=steps), out)
    _print(result.report if as_json else show(result, out, _width()))


@app.command()
def translate(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="By default standard input, line by line.")] = None,
    num_beams: Annotated[int, typer.Option(help="Hypotheses kept; 1 = greedy.", min=1)] = 1,
    max_new_tokens: Annotated[int | None, typer.Option(help="Longest translation, in tokens.", min=1)] = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """Translate a text, or every line of standard input.

    Example: clearhead translate runs/demo "three hundred and twenty-one"
    """
    _use(threads)
    loaded = _load(model, device, dtype)
    from clearhead.generation.text import translate

    options = {"num_beams": num_beams} | ({} if max_new_tokens is None else {"max_new_tokens": max_new_tokens})
    _each_line(text, lambda line: translate(loaded, line, **options))


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
    _use(threads)
    loaded = _load(model, device, dtype)
    import torch

    from clearhead.generation.text import complete

    torch.manual_seed(seed)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "do_sample": temperature > 0}
    if temperature > 0:
        options |= {"temperature": temperature, "top_p": top_p}
    _each_line(text, lambda line: complete(loaded, line, **options))


@app.command()
def describe(model: Model, as_json: Json = False) -> None:
    """What a model is made of: layers, settings, parameters, addresses to look at.

    Example: clearhead describe runs/demo
    """
    loaded = _load(model, "cpu", None)
    from clearhead.model.describe import count, describe
    from clearhead.tap import sites

    if as_json:
        found = {"parameters": count(loaded), "config": loaded.config.to_dict(), "sites": sites(loaded.config)}
        _print(found)
    else:
        print(describe(loaded))


def main() -> None:
    """The program: a user's mistake is one sentence on stderr and exit status 2, without a traceback."""
    try:
        app()
    except ValueError as error:
        print(f"clearhead: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("clearhead: stopped", file=sys.stderr)
        sys.exit(130)


def _load(folder: Path, device: str, dtype: str | None) -> Any:
    import torch

    from clearhead.families.load import load

    known = ("float32", "bfloat16", "float16", "float64")
    if dtype is not None and dtype not in known:
        raise ValueError(f"dtype {dtype!r} is not known; use {', '.join(known)}")
    try:
        place = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return load(folder, dtype=None if dtype is None else getattr(torch, dtype), device=place)


def _each_line(text: str | None, answer: Any) -> None:
    """Answer the text, or each line of standard input as it comes; an empty line gives an empty line."""
    if text is not None:
        if not text.strip():
            raise ValueError("the text is empty; give some words")
        print(answer(text))
        return
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
        words = line.decode("utf-8", errors="strict").strip("\r\n")
        try:
            print(answer(words) if words.strip() else "", flush=True)
        except BrokenPipeError:  # who reads has seen enough, as in `clearhead translate ... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


def _use(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _print(result: Any) -> None:
    """JSON for data, colours where the terminal has them for a picture."""
    if isinstance(result, dict):
        print(json.dumps(result, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    Console(width=_width(), highlight=False, soft_wrap=True).print(result)


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
