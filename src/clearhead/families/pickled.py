"""Pickled weights (pytorch_model.bin, whole or in shards): opened only to convert them, in a process of their own.

To read a pickle is to run it. That process has torch's restricted loader, which builds tensors and nothing else, and
writes safetensors; this one never opens the file.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clearhead.families.store import write_json
from clearhead.families.weights import INDEX, WHOLE, inside, weight_map

PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"


def pickled_in(folder: Path) -> list[Path]:
    """The pickled files that a folder's weights are in; none if it has safetensors.

    Raises ValueError for a shard that is missing or outside the folder.
    """
    if (folder / WHOLE).exists() or (folder / INDEX).exists():
        return []
    if (folder / PICKLED).exists():
        return [folder / PICKLED]
    index = folder / PICKLED_INDEX
    return [inside(index, name, ".bin") for name in sorted(set(weight_map(index).values()))] if index.exists() else []


def refuse_pickled(folder: Path) -> None:
    """ValueError, saying what to do, for a folder with pickled weights only."""
    if found := pickled_in(folder):
        raise ValueError(
            f"{found[0]} is a pickle, which can run code when it is opened; `clearhead convert {folder} OUT` reads it "
            "safely and writes a folder that can be loaded"
        )


def unpickled(files: list[Path], folder: Path, step: Callable[[int, int], None]) -> None:
    """Write the tensors of pickled files into `folder`, as safetensors. step(done, of all): after each tensor.

    Raises ValueError for a file that holds anything but tensors under names. Nothing in it is run.
    """
    command = [sys.executable, "-m", "clearhead.families.unpickle", str(folder), *map(str, files)]
    where: dict[str, str] = {}
    total = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as reader:
        assert reader.stdout is not None
        for line in reader.stdout:
            said: dict[str, Any] = json.loads(line)
            if "error" in said:
                raise ValueError(said["error"])
            total += said.get("count", 0)
            if "name" in said:
                where[said["name"]] = said["file"]
                step(len(where), total)
    if reader.returncode != 0 or not where:
        raise ValueError(f"{files[0]} could not be read; its process ended with status {reader.returncode}")
    write_json(folder / INDEX, {"weight_map": where})
