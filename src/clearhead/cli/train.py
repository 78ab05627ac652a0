"""Verbs around one's own text: `train` (`lm`, `translate`, `mlm`, `span`, `classify`, `run`), `doctor` and `score`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clearhead.cli.options import Device, Dtype, Json, Model, Threads, app, check_device, load, show, use
from clearhead.train import recipe as recipes
from clearhead.train.data.files import texts_of
from clearhead.train.recipe import Recipe, Saving, Source, explained, read_recipe

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
    return Recipe(data=Source(train=(*files,)), model=recipes.Model(start=start), save=Saving(every=save_every), **said)


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


@train.command()
def span(
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
    """Train an encoder-decoder to say which spans of a text are missing (T5). The last 5 % are kept for validation.

    Example: clearhead train span book.txt --out runs/spans
    """
    recipe = _recipe(files, start, save_every, task="span", steps=steps, seed=seed, device=device)
    _run(recipe, out, resume, as_json, threads)


@train.command()
def classify(
    files: Annotated[list[str], typer.Argument(help="A table with texts and labels, or owner/name.")],
    out: Out,
    text: Annotated[str, typer.Option(help="Column of the texts.")] = "text",
    label: Annotated[str, typer.Option(help="Column of the labels.")] = "label",
    steps: Steps = None,
    save_every: SaveEvery = 100,
    seed: Seed = 0,
    resume: Resume = False,
    start: Start = None,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
) -> None:
    """Train a classifier, which says the label of a text. The last 5 % of the rows are kept for validation.

    Example: clearhead train classify reviews.tsv --from organisation/encoder --out runs/reviews
    """
    recipe = _recipe(files, start, save_every, task="classify", steps=steps, seed=seed, device=device)
    recipe = replace(recipe, data=replace(recipe.data, text=text, label=label))
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
    check_device(recipe.device)
    texts = None if "WORLD_SIZE" in os.environ else texts_of(recipe)  # of several processes one must say what is wrong
    use(threads)
    from clearhead.train.run import run
    from clearhead.train.spread import OtherProcessError

    try:
        report = run(recipe, out, resume, texts)
    except OtherProcessError as error:
        raise typer.Exit(2) from error
    if report is not None and as_json:
        show(report)
    elif report is not None:
        print("\n".join(_told(report)))
        verb = {"lm": "complete", "translate": "translate", "classify": "classify"}.get(recipe.task)
        print(f"\nSaved in {out}" + (f'; now try\n  clearhead {verb} {out} "..."' if verb else ""))


def _told(report: dict[str, Any]) -> list[str]:
    """A report in words."""
    per_byte = "" if report["bits_per_byte"] is None else f", {report['bits_per_byte']:.3f} bits per byte"
    bleu = ["BLEU {bleu:.1f}, chrF {chrf:.1f} of {sentences} sentences".format(**report)] if "bleu" in report else []
    bleu += ["mean F1 of the labels {macro_f1:.1%}".format(**report)] if "macro_f1" in report else []
    things = "texts" if "macro_f1" in report else "tokens"
    samples = [f"{name}: {text}" for sample in report["samples"] for name, text in sample.items()]
    return [
        f"{report['parameters']:,} parameters, {report['steps']} steps in {report['train_seconds']:.1f} s",
        f"validation loss {report['validation_loss']:.4f}{per_byte}, {report['accuracy']:.1%} of the {things} right",
        *bleu,
        "",
        *samples,
    ]


Text = Annotated[str, typer.Option(help="Column of the texts in a table.")]
Column = Annotated[str | None, typer.Option(help="Column of a table; by default the first two.")]


@app.command()
def doctor(
    data: Annotated[list[str], typer.Argument(help="Text, a table, two files of sentences, owner/name, or a recipe.")],
    task: Annotated[
        Literal["lm", "translate", "mlm", "span", "classify"] | None,
        typer.Option(
            help="What they are for; by default what MODEL does; else translate for two files of text, or lm."
        ),
    ] = None,
    start: Start = None,
    text: Text = "text",
    source: Column = None,
    target: Column = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the few steps that tell time and memory.")] = False,
    as_json: Json = False,
    threads: Threads = None,
    device: Device = "cpu",
) -> None:
    """Look at data before training: what they hold, what is wrong with them, what a run would take.

    Exit status 0 = nothing to mend, 1 = a fault was found, 2 = could not run. Example: clearhead doctor book.txt
    """
    use(threads)
    check_device(device)
    from clearhead.train import doctor as looking

    if len(data) == 1 and data[0].endswith((".yaml", ".yml")):
        recipe = read_recipe(Path(data[0]))
    else:
        texts = Source(train=(*data,), text=text, source=source, target=target)
        recipe = Recipe(task=task or looking.task_of_data(data, start), data=texts, model=recipes.Model(start=start))
    found = looking.doctor(replace(recipe, device=device), not quick)
    if as_json:
        show(found.to_dict())
    else:
        from clearhead.cli.diagnosis import print_diagnosis

        print_diagnosis(found)
    raise typer.Exit(1 if found.faults else 0)


@app.command()
def score(
    model: Model,
    data: Annotated[list[str], typer.Argument(help="Text, a table, two files of sentences, or owner/name.")],
    text: Text = "text",
    source: Column = None,
    target: Column = None,
    src_lang: Annotated[str | None, typer.Option(help="Language of the sources, where a model has several.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Language of the targets.")] = None,
    num_beams: Annotated[int, typer.Option(help="Hypotheses kept in translating; 1 = greedy.", min=1)] = 4,
    sentences: Annotated[int | None, typer.Option(help="How many to translate; by default all.", min=1)] = None,
    block: Annotated[int | None, typer.Option(help="Tokens that a text may look back on.", min=2)] = None,
    as_json: Json = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
) -> None:
    """Score a model on text: loss, perplexity, bits per byte, accuracy; of a translator BLEU and chrF.

    Example: clearhead score runs/english-german test.en test.de
    """
    use(threads)
    loaded = load(model, device, dtype)
    from clearhead.train.exam import exam

    spoken = {"src_lang": src_lang, "tgt_lang": tgt_lang}
    texts = replace(Source(train=(*data,), text=text, source=source, target=target), **spoken)
    found = exam(loaded, texts, num_beams, sentences, block)
    if as_json:
        show(found)
        return
    for name, value in found.items():
        if value is not None:
            print(f"{name.replace('_', ' '):<15} {f'{value:.4f}' if isinstance(value, float) else value}")


@app.command()
def film(
    run: Annotated[
        Path, typer.Argument(help="Folder of a run with watch.probes and watch.probe_steps.", metavar="RUN")
    ],
    html: Annotated[Path | None, typer.Option(help="File to write; by default RUN/film.html.")] = None,
) -> None:
    """Heads as they form over training: one page with a slider over the steps. A run that ends has written it already.

    Example: clearhead film runs/book
    """
    from clearhead.train.film import write

    print(f"{write(run, html)} shows it")
