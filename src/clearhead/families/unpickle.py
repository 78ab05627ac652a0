"""The process that reads pickled weights: python -m clearhead.families.unpickle FOLDER FILE..., see pickled.py.

It says what it does in lines of JSON: {"count": tensors of a file}, {"name", "file"} after each tensor, {"error"}.
"""

import json
import pickle
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

CODES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def tensors_of(file: Path) -> dict[str, Tensor]:
    """What a pickled file holds, mapped where its format allows it.

    Raises ValueError for anything but tensors under names; the restricted loader runs nothing.
    """
    try:
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"asks for {named[1]}" if named else "is more than tensors"
        raise ValueError(f"{file} {what}, which weights do not need; it was not run, and the file is refused") from None
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, AttributeError) as error:
        first = next(iter(str(error).splitlines()), "it ends early")
        raise ValueError(f"{file} is damaged: {first}; copy it again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} holds a {type(found).__name__}, not tensors under names")
    for name, value in cast(dict[object, object], found).items():
        known = isinstance(value, Tensor) and value.layout == torch.strided and value.dtype in CODES
        if not known or not isinstance(name, str):
            raise ValueError(f"{file} holds {name!r}, which is no plain tensor but a {type(value).__name__}")
    return cast(dict[str, Tensor], found)


def write_each(path: Path, tensors: dict[str, Tensor]) -> Iterator[str]:
    """A safetensors file, one tensor after the other; gives the name of each when it is written."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in tensors.items():
            tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tofile(file)
            yield name


def main(folder: Path, files: list[Path]) -> None:
    for i, file in enumerate(files):
        tensors = tensors_of(file)
        print(json.dumps({"count": len(tensors)}), flush=True)
        path = folder / f"model-{i + 1:05d}-of-{len(files):05d}.safetensors"
        for name in write_each(path, tensors):
            print(json.dumps({"name": name, "file": path.name}), flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
    except Exception as error:
        print(json.dumps({"error": str(error) or repr(error)}), flush=True)
        sys.exit(1)
