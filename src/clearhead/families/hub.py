"""A model by its id on the Hugging Face hub, through `huggingface_hub`: its cache, its token, its offline variable."""

import re
from pathlib import Path

ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
# what a model's folder is read from; not the same weights again in other formats and precisions
WANTED = [
    *("*.json", "model.safetensors", "model-*-of-*.safetensors", "*_Dense/model.safetensors"),
    "adapter_model.safetensors",
    *("vocab.txt", "merges.txt", "*.model", "*.spm", "chat_template.jinja"),
]


def local(name: str | Path, revision: str | None = None) -> Path:
    """The folder or file `name`; if there is none, and `name` is "organisation/model", the hub's snapshot of it.

    What is there is never looked up. A snapshot lies in the hub's cache, and is downloaded as far as it is not there
    yet (HF_HUB_OFFLINE=1: not at all). `revision`: a branch, tag or commit on the hub.

    Raises ValueError for a revision of a local folder, for a name that is neither, and for what the hub refuses or does
    not hold.
    """
    path = Path(name)
    if path.exists():
        if revision is not None:
            raise ValueError(f"revision={revision!r} is for a model on the hub, but {path} is here; leave it out")
        return path
    if isinstance(name, Path) or not ID.fullmatch(name):
        raise ValueError(
            f"{name} is not a folder, and no model on the hub is called so: those are named 'organisation/model'. "
            "Give the folder that a model was saved in, or such a name"
        )
    return _snapshot(name, revision)


def _snapshot(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        found = Path(snapshot_download(name, revision=revision, allow_patterns=WANTED))
    except Exception as error:  # its errors, and those of the network below it, have no common base
        raise ValueError(
            f"{name} is not a folder here, and the hub does not give it ({_first_line(error)}). If only the "
            f"network is missing, `hf download {name} --local-dir FOLDER` where there is one gives a folder to load"
        ) from error
    if not any(found.glob("*.safetensors")):
        raise ValueError(
            f"{name} has no safetensors on the hub (its files are in {found}); download it whole with "
            f"`hf download {name}`, and convert the folder with `clearhead convert`"
        )
    return found


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
