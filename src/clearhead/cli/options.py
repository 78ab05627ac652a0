"""What the verbs share: the app, common options, and how a verb reads and prints."""

import json
import os
import shutil
import sys
from typing import Annotated, Any

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
Model = Annotated[str, typer.Argument(help="A folder, a GGUF file, or organisation/name on the hub.", metavar="MODEL")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, mps.")]
Dtype = Annotated[str | None, typer.Option(help="Type of the weights: float32, bfloat16, float16, float64.")]
Threads = Annotated[int | None, typer.Option(help="Processor threads to use.", min=1)]


def load(folder: str, device: str, dtype: str | None) -> Any:
    from clearhead.families.load import load as read

    check_device(device)
    return read(folder, dtype=dtype_of(dtype), device=device)


def check_device(name: str) -> None:
    if name == "cpu":
        return  # and torch is not needed yet
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from error


def dtype_of(name: str | None) -> Any:
    import torch

    known = ("float32", "bfloat16", "float16", "float64")
    if name is not None and name not in known:
        raise ValueError(f"dtype {name!r} is not known; use {', '.join(known)}")
    return None if name is None else getattr(torch, name)


def each_line(text: str | None, answer: Any) -> None:
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


def use(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def show(result: Any) -> None:
    """JSON for data, colours where the terminal has them for a picture."""
    if isinstance(result, dict):
        print(json.dumps(result, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    Console(width=width(), highlight=False, soft_wrap=True).print(result)


def width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
