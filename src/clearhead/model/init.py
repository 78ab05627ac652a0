"""How a new model starts. Every layer is drawn afresh, so layers differ; the same seed gives the same model.

With `init_std` None: matrices Xavier-uniform (Glorot & Bengio 2010); embeddings normal with standard deviation
1 / embedding_scale, so that an embedded token has unit variance beside positions of amplitude 1, or dim^-0.5 where the
head shares the table, so that logits start with unit variance.

With `init_std` a number: every matrix and table normal with that deviation; the last matrix of each branch is divided
by sqrt(branches of the stack), so that the residual does not grow with depth (Radford et al. 2019, section 2.3).

Always: vectors of biases 0, gains of norms 1 (0 where the formula adds 1).
"""

import math

from torch import Tensor, nn

from clearhead.config import Head as HeadForm
from clearhead.config import TransformerConfig
from clearhead.model.attention import Attention
from clearhead.model.feed_forward import FeedForward
from clearhead.model.head import Head
from clearhead.model.stack import Stack


def initialise(model: nn.Module, config: TransformerConfig) -> None:
    """Draw all parameters from torch's global generator (`torch.manual_seed`), in the order of the modules."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d):
            _matrix(module.weight, config.init_std)
            if module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1.0 if config.init_std is None else config.init_std)
        elif isinstance(module, Head) and module.weight is not None:
            _matrix(module.weight, config.init_std)
    for stack in (m for m in model.modules() if isinstance(m, Stack)):
        if config.init_std is None:
            last = config.shared_embeddings or stack.form == (config.decoder or config.encoder)
            tied = last and isinstance(config.head, HeadForm) and config.head.tied
            std = (stack.form.embedding_dim or config.dim) ** -0.5 if tied else 1.0 / stack.form.embedding_scale
            if isinstance(stack.embedding, nn.Embedding):
                nn.init.normal_(stack.embedding.weight, std=std)
        else:
            _quieten(stack)


def _matrix(weight: Tensor, std: float | None) -> None:
    if std is None:
        nn.init.xavier_uniform_(weight)
    else:
        nn.init.normal_(weight, std=std)


def _quieten(stack: Stack) -> None:
    last = [
        m.o if isinstance(m, Attention) else m.down for m in stack.modules() if isinstance(m, Attention | FeedForward)
    ]
    for matrix in last:
        matrix.weight.data.div_(math.sqrt(len(last)))
