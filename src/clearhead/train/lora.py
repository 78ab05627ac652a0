"""Low-rank adaptation (LoRA; Hu et al. 2021): beside each chosen matrix W two small ones are trained, A and B.

y = x W^T + alpha / rank * (x A^T) B^T, where W [outputs, inputs] stays as it is. A [rank, inputs] is drawn as by the
authors' code, uniform within 1 / sqrt(inputs); B [outputs, rank] starts at zero, so that the model does at first what
it did before, to the bit.
"""

import difflib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.families.adapter import Adapter, write_adapters
from clearhead.families.load import write
from clearhead.model.transformer import Transformer
from clearhead.train.recipe import Lora

FOLDER = "adapter"


class Adapted(nn.Linear):
    """A matrix with its adapter: `weight` and `bias` as they were, `down` (A) and `up` (B) beside them."""

    def __init__(self, linear: nn.Linear, form: Lora):
        rows, columns = linear.weight.shape
        super().__init__(columns, rows, bias=False, device="meta")
        self.form, self.scale, self.weight, self.bias = form, form.strength / form.rank, linear.weight, linear.bias
        self.down = nn.Parameter(linear.weight.new_empty(form.rank, columns))
        self.up = nn.Parameter(linear.weight.new_zeros(rows, form.rank))
        if not self.down.is_meta:
            nn.init.uniform_(self.down, -(columns**-0.5), columns**-0.5)

    @property
    def adapter(self) -> Adapter:
        """What is added to the matrix."""
        return Adapter(self.down.detach(), self.up.detach(), self.scale)

    def forward(self, input: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]."""
        kept = F.dropout(input, self.form.dropout, self.training)
        return super().forward(input) + self.scale * F.linear(F.linear(kept, self.down), self.up)


def adapt(model: Transformer, form: Lora, base: str) -> None:
    """Give the matrices that fit a target their adapters, drawn from torch's global generator; only these are trained.

    base: what the model was loaded from. Raises ValueError for a target that no matrix fits, naming the nearest, and
    for a rank that is larger than a matrix.
    """
    linears = {f"{name}.weight": name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    chosen = {name for target in form.targets for name in _fitting(linears, target)}
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for matrix in (name for name in linears if name in chosen):  # in the model's order
        shape = model.get_parameter(matrix).shape
        if form.rank > min(shape):
            raise ValueError(
                f"recipe.model.lora.rank is {form.rank}, but {matrix} is {list(shape)}; at most {min(shape)} does "
                "anything there, lower it or name other targets"
            )
        linear = model.get_submodule(linears[matrix])
        assert isinstance(linear, nn.Linear)
        model.set_submodule(linears[matrix], Adapted(linear, form))
    vars(model)["base"] = base


def _fitting(names: Mapping[str, str], target: str) -> list[str]:
    found = [name for name in names if fnmatchcase(name, target)]
    if not found:
        near = ", ".join(difflib.get_close_matches(target, names, n=3, cutoff=0.0))
        raise ValueError(f"recipe.model.lora.targets: no matrix is called {target}; there are for instance {near}")
    return found


def adapted(model: nn.Module) -> Iterator[tuple[str, Adapted]]:
    """The matrices with an adapter, by the name of their module."""
    return ((name, module) for name, module in model.named_modules() if isinstance(module, Adapted))


def small_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters of all adapters, by name."""
    return {f"{name}.{leaf}": getattr(module, leaf) for name, module in adapted(model) for leaf in ("down", "up")}


def merged(model: Transformer) -> Transformer:
    """The model without adapters, their products added to its matrices; itself if it has none."""
    found = dict(adapted(model))
    if not found:
        return model
    small = small_of(model)
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters() if name not in small}
    for name, module in found.items():
        weight = module.weight.detach()
        tensors[f"{name}.weight"] = (weight + module.adapter.product).to(weight.dtype)
    return twin(model, tensors)


def twin(model: Transformer, tensors: Mapping[str, Tensor]) -> Transformer:
    """A model like this one with these tensors as its parameters, and adapters where there are tensors for them."""
    with torch.device("meta"):
        found = Transformer(model.config)
        for name, module in adapted(model):
            linear = found.get_submodule(name)
            if f"{name}.down" in tensors and isinstance(linear, nn.Linear):
                found.set_submodule(name, Adapted(linear, module.form))
    for name, tensor in tensors.items():
        module, leaf = name.rsplit(".", 1)
        setattr(found.get_submodule(module), leaf, nn.Parameter(tensor, requires_grad=False))
    found.tokenizer = model.tokenizer
    vars(found).update({name: vars(model)[name] for name in ("home", "base") if name in vars(model)})
    return found.train(model.training)


def write_model(model: Transformer, folder: Path) -> None:
    """The files of a model into a folder that exists: without adapters, which go into a folder beside it."""
    plain, found = merged(model), {f"{name}.weight": module.adapter for name, module in adapted(model)}
    write(plain, folder)
    if found:
        write_adapters(found, plain, folder / FOLDER, vars(model)["base"])
