"""The moving average of the weights, which is given instead of the last ones: it lies where the steps go back and forth
(Polyak & Juditsky 1992).

m_0 = w_0, and after each step t: m_t = decay * m_(t-1) + (1 - decay) * w_t, in the type of the weights and without a
correction for the beginning. The model trains on as if nobody averaged.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from clearhead.model.transformer import Transformer
from clearhead.train.lora import twin

Mean = dict[str, Tensor]


def mean_of(model: nn.Module) -> Mean:
    """m_0: a copy of everything that is trained, by name."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad}


@torch.no_grad()
def follow(mean: Mean, model: nn.Module, decay: float) -> None:
    """m_t from m_(t-1), in place, once the model has done step t."""
    for name, parameter in model.named_parameters():
        if name in mean:
            mean[name].lerp_(parameter, 1 - decay)


def averaged(model: Transformer, mean: Mapping[str, Tensor] | None) -> Transformer:
    """A model with the mean in the place of what is trained; without a mean the model itself."""
    if mean is None:
        return model
    return twin(model, {**{name: parameter.detach() for name, parameter in model.named_parameters()}, **mean})
