"""The verb that trains a model on one's own text: `clearhead train lm`, `translate`, `mlm` and `run`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.options import Device, Json, Threads, app, check_device, show, use
from clearhead.train.recipe import Model, Recipe, Saving, Source, explained, read_recipe

train = typer.Typer(
    help="Train a model on your own text.\n\nExample: clearhead train lm book.txt --out runs/book",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(train, name="train")

Out = Annotated[Path, typer.Option(help="Folder of the run: model, tokenizer, checkpoint, log.")]
Files = Annotated[list[str], typer.Argument(help="Text in UTF-8, a table with a column text, or owner/name.")]
Steps = Annotated[int | None, typer.Option(help="By default 20 times through the data: 200 to 5,000 steps.", min=1)]
SaveEvery = Annotated[int, typer.Option(help="Steps between two checkpoints.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of weights and order.", min=0)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")]
Start = Annotated[str | None, typer.Option("--from", metavar="MODEL", help="Start from this model and its tokenizer.")]


def _recipe(files: list[str], start: str | None, save_every: int, **said: Any) -> Recipe:
    """The short ways make a recipe like any other."""
    return Recipe(data=Source(train=(*files,)), model=Model(start=start), save=Saving(every=save_every), **said)


@train.command()
def lm(
    files: Files,
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
    """Train a language model, which goes on with a text. The last 5 % are kept for validation.

    Example: clearhead train lm book.txt --out runs/book
    """
    recipe = _recipe(files, start, save_every, task="lm", steps=steps, seed=seed, device=device)
    _run(recipe, out, resume, as_json, threads)


@train.command()
def translate(
    files: Annotated[
        list[str], typer.Argument(help="Sentences, one a line, and their translations; or a table with both.")
    ],
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
    recipe = _recipe(files, start, save_every, task="translate", steps=steps, seed=seed, device=device)
    _run(recipe, out, resume, as_json, threads)


@train.command()
def mlm(
    files: Files,
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
    """Train an encoder, which fills gaps in a text. The last 5 % are kept for validation.

    Example: clearhead train mlm book.txt --out runs/encoder
    """
    recipe = _recipe(files, start, save_every, task="mlm", steps=steps, seed=seed, device=device)
    _run(recipe, out, resume, as_json, threads)


@train.command(
    help="Train as a recipe says; every field may be left out but data.train.\n\n"
    "Example: clearhead train run recipe.yaml --out runs/book\n\n"
    "\b\nA recipe.yaml:\n  task: lm\n  data: {train: book.txt}\n  optimizer: {adamw: 1e-3}\n\n"
    "\b\nAll fields, with their defaults:\n" + explained()
)
def run(
    recipe: Annotated[Path, typer.Argument(help="In YAML.", metavar="RECIPE")],
    out: Out,
    resume: Resume = False,
    as_json: Json = False,
    threads: Threads = None,
    device: Annotated[str | None, typer.Option(help="Instead of the recipe's: cpu, cuda, mps.")] = None,
) -> None:
    said = read_recipe(recipe)
    _run(said if device is None else replace(said, device=device), out, resume, as_json, threads)


def _run(recipe: Recipe, out: Path, resume: bool, as_json: bool, threads: int | None) -> None:
    use(threads)
    check_device(recipe.device)
    from clearhead.train.run import run

    report = run(recipe, out, resume)
    if report is not None and as_json:
        show(report)
    elif report is not None:
        print("\n".join(_told(report)))
        verb = {"lm": "complete", "translate": "translate"}.get(recipe.task)
        print(f"\nSaved in {out}" + (f'; now try\n  clearhead {verb} {out} "..."' if verb else ""))


def _told(report: dict[str, Any]) -> list[str]:
    """A report in words."""
    per_byte = "" if report["bits_per_byte"] is None else f", {report['bits_per_byte']:.3f} bits per byte"
    bleu = ["BLEU {bleu:.1f}, chrF {chrf:.1f} of {sentences} sentences".format(**report)] if "bleu" in report else []
    samples = [f"{name}: {text}" for sample in report["samples"] for name, text in sample.items()]
    return [
        f"{report['parameters']:,} parameters, {report['steps']} steps in {report['train_seconds']:.1f} s",
        f"validation loss {report['validation_loss']:.4f}{per_byte}, {report['accuracy']:.1%} of the tokens right",
        *bleu,
        "",
        *samples,
    ]
