"""What a model is made of: frozen dataclasses that mirror the module tree, checked once, in one place.

A model is up to two stacks, a stack is a list of layers, a layer is two or three branches.
"""

from clearhead.config.model import TransformerConfig
from clearhead.config.parts import (
    Activation,
    AnswerSpan,
    AnyHead,
    Attention,
    Audio,
    Bands,
    Dense,
    FeedForward,
    Head,
    Layer,
    Linear,
    LongRope,
    Norm,
    Pool,
    Positions,
    RelativeBias,
    Rotary,
    Stack,
    TextClassifier,
    TextEmbedding,
    TokenClassifier,
    Yarn,
)

__all__ = [
    "Activation",
    "AnswerSpan",
    "AnyHead",
    "Attention",
    "Audio",
    "Bands",
    "Dense",
    "FeedForward",
    "Head",
    "Layer",
    "Linear",
    "LongRope",
    "Norm",
    "Pool",
    "Positions",
    "RelativeBias",
    "Rotary",
    "Stack",
    "TextClassifier",
    "TextEmbedding",
    "TokenClassifier",
    "TransformerConfig",
    "Yarn",
]
