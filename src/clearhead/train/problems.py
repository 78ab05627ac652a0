"""What cannot be meant in a recipe: numbers out of bounds, and fields that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clearhead.fields import out_of_bounds

if TYPE_CHECKING:
    from clearhead.train.recipe import Recipe

POSITIVE = {
    *("accumulate", "alpha", "block", "clip", "dim", "every", "keep", "layers", "longest", "size", "steps", "tokens"),
}
AT_LEAST = dict.fromkeys(
    [
        *("dropout", "adamw", "muon", "decay", "beta1", "beta2", "warmup", "floor", "average", "evaluate_every"),
        *("ema", "patience", "rank", "sample_every", "smoothing", "seed"),
    ],
    0,
)


def problems(recipe: Recipe) -> Iterator[str]:
    """Every way in which a recipe's fields do not fit together, one sentence each: field, numbers, fix."""
    yield from out_of_bounds(recipe, AT_LEAST, POSITIVE)
    shares = {"model.dropout": recipe.model.dropout, "smoothing": recipe.smoothing}
    shares |= {"model.lora.dropout": recipe.model.lora.dropout, "save.ema": recipe.save.ema}
    shares |= {"optimizer.beta1": recipe.optimizer.beta1, "optimizer.beta2": recipe.optimizer.beta2}
    for name, value in shares.items():
        if value is not None and value >= 1:
            yield f"{name} is {value}; it must be below 1"
    if recipe.schedule.floor > 1:
        yield f"schedule.floor is {recipe.schedule.floor}; it is a share of the peak, so at most 1"
    watch, start = recipe.watch, recipe.model
    for name, value in (("watch.patience", watch.patience), ("save.keep_best", recipe.save.keep_best)):
        if value and not watch.evaluate_every:
            yield f"{name} is {value}, but watch.evaluate_every is 0; say how often to validate"
    if recipe.save.average > recipe.save.keep:
        yield f"save.average is {recipe.save.average}, but save.keep is {recipe.save.keep}; keep at least as many"
    if recipe.save.average and recipe.save.ema:
        yield f"save.average is {recipe.save.average} and save.ema {recipe.save.ema}, two means; leave one of them out"
    rate, steps = recipe.schedule, recipe.steps
    if steps is not None and rate.kind == "wsd" and (rate.warmup or 0) + (rate.decay or 0) > steps:
        yield f"schedule.warmup {rate.warmup} and decay {rate.decay} are more than the {steps} steps; shorten them"
    if recipe.data.stream and recipe.steps is None:
        yield "steps is null, but data.stream is true; say how many steps, since a stream has no known length"
    both = set(recipe.data.train) & set(recipe.data.validation)
    if both:
        yield f"data.validation holds {min(both)}, which is trained on; name another file, or none for the last 5 %"
    if start.start is not None and (start.config or start.dim or start.layers):
        yield f"model.start is {start.start!r}, so it has its config, dim and layers; leave those out"
    if recipe.task == "classify":
        for name, value in (("data.stream", recipe.data.stream), ("model.lora.rank", recipe.model.lora.rank)):
            if value:
                yield f"{name} is {value}, but task is classify, which reads all and trains a new head; leave it out"
    elif recipe.data.label is not None:
        yield f"data.label is {recipe.data.label!r}, but task is {recipe.task}; set it to classify"
    if recipe.task == "span":
        if recipe.batch.pack:
            yield "batch.pack is true, but task is span, which knows no documents side by side; leave it out"
        if recipe.batch.block == 1:
            yield "batch.block is 1, but task is span, which leaves one token and asks for another; give at least 2"
    if recipe.model.lora.rank:
        yield from _lora_problems(recipe)


def _lora_problems(recipe: Recipe) -> Iterator[str]:
    model, rank = recipe.model, recipe.model.lora.rank
    if model.start is None:
        yield f"model.lora.rank is {rank}, but model.start is null; name the model that is to be adapted"
    if not model.lora.targets:
        yield f"model.lora.rank is {rank}, but model.lora.targets is empty; name some matrices"
    if model.freeze:
        yield f"model.freeze is {list(model.freeze)}, but with model.lora.rank {rank} all is frozen; leave it out"
    if recipe.save.average:
        yield f"save.average is {recipe.save.average}, but a mean has no adapter of rank {rank}; leave it out"
