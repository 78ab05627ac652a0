"""The verb that opens a page on a model: serve."""

import os
import sys
import webbrowser
from typing import Annotated

import typer

from clearhead.cli.options import Device, Dtype, Model, Threads, app, load, use

TEXT = "The animal didn't cross the street because it was too tired."
WARNING = "can be reached from other machines, unencrypted; whoever knows the address above can ask the model"


@app.command()
def serve(
    model: Model,
    text: Annotated[str, typer.Argument(help="What the model reads at first.")] = TEXT,
    to: Annotated[str | None, typer.Option(help="What it is to write; by default what it writes itself.")] = None,
    port: Annotated[int, typer.Option(help="0 = any that is free.", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option(help="Where to listen; 127.0.0.1 = this machine only.")] = "127.0.0.1",
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """A page on a model in the browser: every head, any text, heads taken out, one token after the other.

    Example: clearhead serve runs/demo "three hundred and seven"
    """
    use(threads)
    from clearhead.view.guard import loopback
    from clearhead.view.reading import read
    from clearhead.view.scene import Scene, title
    from clearhead.view.serve import Server, listen

    with listen(host, port) as listening:  # before the model is loaded, which may take long
        loaded = load(model, device, dtype)
        server = Server(Scene(read(loaded, text, to), loaded, title(text)), host, listening.getsockname()[1])
        print(f"{server.address}\nCtrl+C ends it.", flush=True)
        if not loopback(host):
            print(f"warning: {host} {WARNING}", file=sys.stderr)
        if show and has_screen():
            webbrowser.open(server.address)
        server.run(listening)


def has_screen() -> bool:
    """Whether a browser would open beside the terminal, not in it."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
