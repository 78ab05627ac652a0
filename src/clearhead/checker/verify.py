"""A checkpoint on the user's own disk: whether we answer what its home library answers, and what we once answered."""

from __future__ import annotations

import copy
import importlib
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.checker.compare import compare_models
from clearhead.checker.ports import changes, first_change
from clearhead.config import TransformerConfig
from clearhead.families.fingerprint import answers, checksums, probe, read_fingerprint
from clearhead.families.gguf import gguf_in
from clearhead.families.known import FAMILIES
from clearhead.families.load import Home, load
from clearhead.model.transformer import Transformer

HOME = "transformers"
ROOM = 1e-4  # of the largest number: what float32 may round otherwise
TOKENS = 40
MARKS = {True: "equal  ", False: "DIFFERS", None: "   -   "}
INFINITE = float("inf")  # of shapes that differ and of NaN; JSON has no number for it


@dataclass(frozen=True)
class Finding:
    """One comparison. Differences are shares of the largest number; `equal` is None where it could not be made."""

    what: str
    equal: bool | None
    words: str
    max_difference: float | None = None
    mean_difference: float | None = None
    first_site: str | None = None
    cause: str | None = None


def verify_of(path: str | Path, tokens: int = TOKENS) -> tuple[str, str, int]:
    """(text, JSON, exit code) for a checkpoint: 0 equal, 1 something differs, 2 nothing could be compared."""
    try:
        found = verify(path, tokens)
        error = None
    except ValueError as mistake:
        found, error = [], str(mistake)
    made = [one.equal for one in found if one.equal is not None]
    status = 1 if False in made else 0 if made else 2
    plain = [{key: None if value == INFINITE else value for key, value in asdict(one).items()} for one in found]
    document = {"path": str(path), "equal": status == 0 if made else None, "error": error, "findings": plain}
    text = error or "\n".join(f"{MARKS[one.equal]}  {one.what}: {one.words}" for one in found)
    return text, json.dumps(document, indent=2), status


def verify(path: str | Path, tokens: int = TOKENS) -> list[Finding]:
    """Compares a checkpoint's answers with those of its home library, if that is installed, and with those that were
    stored when it was converted, if it was. Raises ValueError if it cannot be loaded.

    tokens: length of the text that both read. Windows and scalings that begin later are not tried.
    """
    path = Path(path)
    model = load(path, dtype=torch.float32)
    return [*with_home(path, model, tokens), with_fingerprint(path, model)]


def with_home(path: Path, model: Transformer, tokens: int = TOKENS) -> list[Finding]:
    """One finding for each type of numbers, or one that says why there is none."""
    what, home = f"with {HOME}", vars(model).get("home")
    if not isinstance(home, Home):
        return [Finding(what, None, "the folder is in our own format, which it does not know")]
    try:
        library = importlib.import_module(HOME)
    except ImportError:
        return [Finding(what, None, f"it is not installed (pip install {HOME})")]
    try:
        with quiet(library):
            inputs = probe(model.config, tokens)
            theirs, drawn = opened(library, path, home, torch.float32)
            first = compared(model, theirs, inputs, drawn)
            if not first.equal:
                return [first]
            wanted = answer_of(theirs, inputs)
            theirs, _ = opened(library, path, home, torch.bfloat16)
    except Exception as error:  # its ways to fail are many
        words = " ".join(str(error).split())[:300]
        return [Finding(what, None, f"it cannot run this: {type(error).__name__}: {words}")]
    return [first, rounded(copy.deepcopy(model).bfloat16(), theirs, inputs, wanted)]


def compared(ours: Transformer, theirs: nn.Module, inputs: dict[str, Tensor], drawn: list[str]) -> Finding:
    """In float32, where the two must be equal. drawn: the weights of theirs that are not in the file."""
    what, left, right = f"with {HOME}, float32", answer_of(ours, inputs), answer_of(theirs, inputs)
    if left.shape != right.shape:
        return Finding(what, False, f"we answer {list(left.shape)}, it answers {list(right.shape)}")
    most, mean = differences(left, right)
    if most <= ROOM:
        return Finding(what, True, told(most, mean), most, mean)
    found = compare_models(ours, theirs, inputs)
    random = f"; it drew {len(drawn)} weights at random, such as {drawn[0]}" if drawn else ""
    return Finding(what, False, f"{told(most, mean)}; {found.words}{random}", most, mean, found.first_site, found.cause)


def rounded(ours: nn.Module, theirs: nn.Module, inputs: dict[str, Tensor], wanted: Tensor) -> Finding:
    """In bfloat16, where ours may be half as far again from float32 as theirs."""
    left, right = answer_of(ours, inputs), answer_of(theirs, inputs)
    most, mean = differences(left, right)
    mine, other = (differences(one, wanted)[0] for one in (left, right))
    words = f"{told(most, mean)}; from float32 we are {mine:.1e} away, it is {other:.1e}"
    return Finding(f"with {HOME}, bfloat16", mine <= 1.5 * other + 0.005, words, most, mean)


def with_fingerprint(path: Path, model: Transformer) -> Finding:
    """The answers now and those when the folder was written; where they differ, what has changed since."""
    from clearhead import __version__

    what, stored = "with the fingerprint", read_fingerprint(path) if path.is_dir() else None
    if stored is None:
        return Finding(what, None, "there is none; `clearhead convert` stores one")
    before, now = torch.tensor(stored["answers"]), answers(model)
    most, mean = differences(now, before)
    kept = stored["weights"]
    changed = [name for name, value in checksums(path).items() if kept.get(name) != value]
    cause, why = edited(stored["config"], model.config)
    reasons = [f"{name} is not the file that was written" for name in changed] + ([f"the config: {why}"] if why else [])
    if most <= ROOM and not reasons:
        return Finding(what, True, told(most, mean), most, mean)
    reason = "; ".join(reasons) or f"files and config are the same; version {stored['clearhead']} is now {__version__}"
    return Finding(what, False, f"{told(most, mean)}; {reason}", most, mean, None, cause)


def edited(stored: dict[str, Any], now: TransformerConfig) -> tuple[str | None, str]:
    """(cause, words): the bank's name for what leads from one config to the other, and the first field that differs."""
    try:
        before = TransformerConfig.from_dict(stored)
    except ValueError as error:  # fields of another version
        return None, str(error)
    if before == now:
        return None, ""
    try:
        words = first_change(before, now)
    except ValueError:
        return None, "the number of layers"
    ways = [(now, before, list(changes(now))), (before, now, list(changes(before)))]
    exact = [cause.name for _, end, known in ways for cause, config in known if config == end]
    field = anywhere(words)  # a part of what the bank changes may have changed, in one layer or in all
    near = [
        cause.name
        for start, _, known in ways
        for cause, config in known
        if field.startswith(anywhere(first_change(start, config)))
    ]
    return next(iter(exact + near), None), words


def anywhere(change: str) -> str:
    """The field that a change begins with, whatever the layer."""
    return re.sub(r"layers\.\d+", "layers", change.split()[0]) + "."


def opened(library: ModuleType, path: Path, home: Home, dtype: torch.dtype) -> tuple[nn.Module, list[str]]:
    """(model, weights that it had to draw): the same checkpoint there. No network, no code from the folder."""
    named: list[str] = home.content.get("architectures") or [*FAMILIES[home.content["model_type"]].architectures]
    file = gguf_in(path)
    folder, more = (path, {}) if file is None else (file.parent, {"gguf_file": file.name})
    maker: Any = getattr(library, named[0])
    options = {"dtype": dtype, "local_files_only": True, "output_loading_info": True, **more}
    model, said = maker.from_pretrained(folder, **options)
    return model.eval(), sorted(said["missing_keys"])


@contextmanager
def quiet(library: ModuleType) -> Generator[None]:
    """Without the bars and remarks of the other library, which are about its own ways."""
    logs = library.utils.logging
    before, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(before)
        if bars:
            logs.enable_progress_bar()


def answer_of(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """What a model says in the end, as float32: logits, the two of an answer's span side by side, or states."""
    with torch.no_grad():
        dtype = next(model.parameters()).dtype
        out: Any = model(**{name: x.to(dtype) if x.is_floating_point() else x for name, x in inputs.items()})
    if getattr(out, "logits", None) is not None:
        return out.logits.float()
    if getattr(out, "start_logits", None) is not None:
        return torch.stack([out.start_logits, out.end_logits], -1).float()
    return (out.hidden if isinstance(model, Transformer) else out.last_hidden_state).float()


def differences(left: Tensor, right: Tensor) -> tuple[float, float]:
    """(largest, mean), as shares of the largest number of `right`; infinite for other shapes and NaN."""
    if left.shape != right.shape:
        return INFINITE, INFINITE
    found = torch.nan_to_num((left - right).abs().double(), nan=INFINITE) / right.abs().max().clamp(min=1e-30)
    return float(found.max()), float(found.mean())


def told(most: float, mean: float) -> str:
    return f"largest difference {most:.1e}, mean {mean:.1e} (of the largest number)"
