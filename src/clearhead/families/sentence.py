"""Folders of sentence-transformers: modules.json says how the states of a text become one vector."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from clearhead.config import Activation, Dense, Pool, TextEmbedding
from clearhead.families.family import Task
from clearhead.families.moves import Rename
from clearhead.families.store import read_json

LIST = "modules.json"
BESIDE = ("sentence_bert_config.json", "config_sentence_transformers.json")
POOLS: dict[str, Pool] = {"cls": "first", "lasttoken": "last", "mean": "mean", "max": "max"}
OLD_POOLS = {  # one switch for each, before they became one word
    **{f"pooling_mode_{name}_tokens": name for name in ("mean", "max", "mean_sqrt_len", "weightedmean")},
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS: dict[str, Activation | None] = {
    "Identity": None,
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
    "SiLU": "silu",
}
# Settings with which the home library would do more than we do, and the values with which it does not.
PLAIN: dict[str, tuple[Any, ...]] = {
    "do_lower_case": (None, False),
    "default_prompt_name": (None,),
    "use_residual": (None, False),
    "module_input_name": (None, "sentence_embedding"),
    "module_output_name": (None, "sentence_embedding", "token_embeddings"),
}
Files = Mapping[str, Any]


def files_of(folder: Path) -> dict[str, Any]:
    """The JSON files that speak of modules, by their path inside the folder; none if there is no modules.json.

    Raises ValueError, naming the file, for one that is missing, broken or outside the folder.
    """
    file = folder / LIST
    if not file.is_file():
        return {}
    try:
        listed: Any = json.loads(file.read_text(encoding="utf-8"))
        named = [(str(one["type"]).rsplit(".", 1)[-1], str(one["path"])) for one in listed]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is not a list of modules with type and path; copy the folder again") from error
    found: dict[str, Any] = {LIST: listed}
    for kind, path in named:
        if Path(path).name != path or "\\" in path or (kind == "Transformer") != (path == ""):
            raise ValueError(
                f"{file} puts the module {kind} in {path!r}; this version reads a Transformer in the folder itself, "
                "and others in plain folders below it"
            )
        if path and (folder / path / "config.json").is_file():
            found[f"{path}/config.json"] = read_json(folder / path / "config.json")
    return found | {name: read_json(folder / name) for name in BESIDE if (folder / name).is_file()}


def task_of(files: Files, accepted: Iterable[str] = ()) -> Task:
    """The head that these files describe, and where its tensors are.

    Raises ValueError for what no formula here does, unless the setting is `accepted` by its name.
    """
    _check_settings(files, frozenset(accepted))
    modules = _modules(files)
    kinds = [kind for kind, _ in modules]
    if kinds not in (
        ["Transformer", "Pooling", *dense, *norm] for dense in ([], ["Dense"]) for norm in ([], ["Normalize"])
    ):
        raise ValueError(
            f"{LIST} lists {', '.join(kinds)}; known are Transformer, Pooling, Dense, Normalize in this order"
        )
    place = dense_in(files)
    dense = None if place is None else _dense(files.get(f"{place}/config.json", {}))
    pool = _pool(files.get(f"{dict(modules)['Pooling']}/config.json", {}))
    head = TextEmbedding(pool=pool, dense=dense, normalise="Normalize" in kinds)
    return Task(lambda s, language: head, () if place is None else (Rename(f"{place}.linear", "head.dense.linear"),))


def dense_in(files: Files) -> str | None:
    """The folder of the dense layer, whose tensors come in a file of their own."""
    return dict(_modules(files)).get("Dense") if files else None


def _modules(files: Files) -> list[tuple[str, str]]:
    return [(one["type"].rsplit(".", 1)[-1], one["path"]) for one in files[LIST]]


def _pool(settings: Mapping[str, Any]) -> Pool:
    old = [name for key, name in OLD_POOLS.items() if settings.get(key)]
    mode = settings.get("pooling_mode", old or ["mean"])
    modes = cast(list[str], mode if isinstance(mode, list) else [mode])
    if len(modes) != 1 or modes[0] not in POOLS:
        raise ValueError(f"the pooling is {' and '.join(modes)}; known is one of {', '.join(POOLS)}")
    return POOLS[modes[0]]


def _dense(settings: Mapping[str, Any]) -> Dense:
    named = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rsplit(".", 1)[-1]
    if named not in ACTIVATIONS:
        raise ValueError(f"the dense layer's activation_function is {named}; known are {', '.join(ACTIVATIONS)}")
    width, bias = settings.get("out_features"), settings.get("bias", True)
    if not isinstance(width, int) or not isinstance(bias, bool):
        raise ValueError(f"the dense layer has out_features={width!r} and bias={bias!r}; expected a number and a truth")
    return Dense(width=width, activation=ACTIVATIONS[named], bias=bias)


def _check_settings(files: Files, accepted: frozenset[str]) -> None:
    for path, content in files.items():
        for key, plain in () if path == LIST else PLAIN.items():
            if key not in accepted and content.get(key) not in plain:
                raise ValueError(
                    f"{path} sets {key}={content[key]!r}, which this version cannot run; "
                    "load(..., ignore_config=[names]) goes on without it"
                )
