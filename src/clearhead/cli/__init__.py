"""The command line. Each verb is one function that lives elsewhere; torch is imported only by a verb that needs it."""

import sys
from typing import Annotated

import typer

from clearhead.cli import learn, models, run, serve, train  # pyright: ignore[reportUnusedImport]  # each adds its verbs  # noqa: F401
from clearhead.cli.options import app


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """The Transformer you can see through.

    Example: clearhead lesson
    """
    if version:
        from clearhead import __version__

        print(__version__)
        raise typer.Exit


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
