"""The worked example as a model that the lens can look into: the lesson's matrices as the weights of one layer."""

import tokenizers
import torch
from tokenizers import models, pre_tokenizers

from clearhead.config import Attention, FeedForward, Layer, Stack, TransformerConfig
from clearhead.lesson.example import TOKENS, example
from clearhead.model.transformer import Transformer
from clearhead.text.tokenizer import Tokenizer


def worked_example() -> Transformer:
    """An encoder of one layer with one head, in float64, that reads "the cat sat": `encoder.0.self` is the lesson's.

    Its embeddings are X, its matrices Wq, Wk and Wv, and no norm stands before its attention. The lesson ends there, so
    the output matrix changes nothing and the feed-forward adds nothing.
    """
    given = example()
    tokens, dim = given.X.shape
    layer = Layer(self_attention=Attention(heads=1), feed_forward=FeedForward(dim=1, bias=False), bare=True)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(TransformerConfig(dim=dim, encoder=Stack(layers=(layer,), vocab=tokens), head=None))
    model = model.double().eval()
    numbers = {
        "embedding.weight": torch.tensor(given.X),
        "layers.0.self_attention.q.weight": torch.tensor(given.Wq.T),  # a Linear multiplies by the transpose
        "layers.0.self_attention.k.weight": torch.tensor(given.Wk.T),
        "layers.0.self_attention.v.weight": torch.tensor(given.Wv.T),
        "layers.0.self_attention.o.weight": torch.eye(dim),
        "layers.0.feed_forward.down.weight": torch.zeros(dim, 1),
    }
    assert model.encoder is not None
    model.encoder.load_state_dict({**model.encoder.state_dict(), **numbers})
    inner = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(TOKENS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.tokenizer = Tokenizer(inner, {})
    return model
