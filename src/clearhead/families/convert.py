"""Any model that can be read, as a folder of safetensors in its home library's format."""

import shutil
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from clearhead.families.fingerprint import write_fingerprint
from clearhead.families.load import load, write
from clearhead.families.pickled import pickled_in, unpickled
from clearhead.families.store import new_folder

OTHER = ("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.ot", "*.onnx", ".*")  # weights that `load` does not read


def convert(source: str | Path, folder: str | Path, *, dtype: torch.dtype | None = None) -> None:
    """Write the model in `source` into `folder`, with clearhead.json, the fingerprint that `verify` compares with.

    source: what `load` reads, or a folder with pickled weights, which are opened in a process of their own by torch's
    restricted loader. dtype: of the weights, by default as stored, of a GGUF file float32. A folder that is there is
    replaced once the new one is complete. Progress shows on stderr.

    Raises ValueError as `load` does, and for a pickle that holds more than tensors.
    """
    source, folder = Path(source), Path(folder)
    if source.resolve() == folder.resolve():
        raise ValueError(f"{source} would be replaced by what is made of it; give another folder to write in")
    with Progress(console=Console(stderr=True), transient=True) as bar, new_folder(folder) as fresh:
        stage = bar.add_task("reading, writing, checking", total=3)
        with tempfile.TemporaryDirectory(dir=fresh) as spare:
            model = load(_without_pickle(source, Path(spare), bar), dtype=dtype)
            bar.advance(stage)
            write(model, fresh)
        bar.advance(stage)
        del model  # the fingerprint is that of what was written
        write_fingerprint(fresh)
        bar.advance(stage)


def _without_pickle(source: Path, spare: Path, bar: Progress) -> Path:
    """The source, or where its weights are pickled, a folder like it with safetensors in `spare`."""
    files = pickled_in(source)
    if not files:
        return source
    stage = bar.add_task("reading the pickle", total=None)
    shutil.copytree(source, spare, ignore=shutil.ignore_patterns(*OTHER), dirs_exist_ok=True)
    unpickled(files, spare, lambda done, count: bar.update(stage, completed=done, total=count))
    return spare
