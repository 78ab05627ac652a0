"""The verb that trains a model on one's own text: `clearhead train lm` and `clearhead train translate`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.options import Device, Json, Threads, app, check_device, show, use

train = typer.Typer(
    help="Train a model on your own text.\n\nExample: clearhead train lm book.txt --out runs/book",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(train, name="train")

Out = Annotated[Path, typer.Option(help="Folder of the run: model, tokenizer, checkpoint, log.")]
Steps = Annotated[int | None, typer.Option(help="By default 20 times through the data: 200 to 5,000 steps.", min=1)]
SaveEvery = Annotated[int, typer.Option(help="Steps between two checkpoints.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of weights and order.", min=0)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")]
Start = Annotated[str | None, typer.Option("--from", metavar="MODEL", help="Start from this model and its tokenizer.")]


@train.command()
def lm(
    file: Annotated[Path, typer.Argument(help="Text in UTF-8.")],
    out: Out,
    steps: Steps = None,
    save_every: SaveEvery = 100,
    seed: Seed = 0,
    resume: Resume = False,
    start: Start = None,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
) -> None:
    """Train a language model, which goes on with a text. The last 5 % of the file are kept for validation.

    Example: clearhead train lm book.txt --out runs/book
    """
    _run("lm", (file,), out, steps, save_every, seed, resume, start, as_json, threads, device)


@train.command()
def translate(
    source: Annotated[Path, typer.Argument(help="Sentences in UTF-8, one a line.")],
    target: Annotated[Path, typer.Argument(help="Their translations, line by line.")],
    out: Out,
    steps: Steps = None,
    save_every: SaveEvery = 100,
    seed: Seed = 0,
    resume: Resume = False,
    start: Start = None,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
) -> None:
    """Train a translator. The last 5 % of the lines are kept for validation.

    Example: clearhead train translate book.en book.de --out runs/english-german
    """
    _run("translate", (source, target), out, steps, save_every, seed, resume, start, as_json, threads, device)


def _run(
    kind: Literal["lm", "translate"],
    files: tuple[Path, ...],
    out: Path,
    steps: int | None,
    save_every: int,
    seed: int,
    resume: bool,
    start: str | None,
    as_json: bool,
    threads: int | None,
    device: str,
) -> None:
    use(threads)
    check_device(device)
    from clearhead.train.run import Plan, run

    plan = Plan(kind=kind, files=files, start=start, seed=seed, steps=steps, save_every=save_every, device=device)
    report = run(plan, out, resume)
    if report is not None and as_json:
        show(report)
    elif report is not None:
        print(f"{report['parameters']:,} parameters, {report['steps']} steps in {report['train_seconds']:.1f} s")
        print(f"validation loss {report['validation_loss']:.4f}, {report['bits_per_byte']:.3f} bits per byte\n")
        print("\n".join(f"{name}: {report[name]}" for name in ("source", "sample", "target") if name in report))
        print(f'\nSaved in {out}; now try\n  clearhead {"complete" if kind == "lm" else "translate"} {out} "..."')
