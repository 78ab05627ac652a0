"""What a model is made of: frozen dataclasses that mirror the module tree, checked once, in one place.

A model is up to two stacks, a stack is a list of layers, a layer is two or three branches.
"""

from clearhead.config.model import TransformerConfig
from clearhead.config.parts import (
    Activation,
    Attention,
    Audio,
    Bands,
    FeedForward,
    Head,
    Layer,
    Linear,
    Norm,
    Positions,
    RelativeBias,
    Rotary,
    Stack,
    Yarn,
)

__all__ = [
    "Activation",
    "Attention",
    "Audio",
    "Bands",
    "FeedForward",
    "Head",
    "Layer",
    "Linear",
    "Norm",
    "Positions",
    "RelativeBias",
    "Rotary",
    "Stack",
    "TransformerConfig",
    "Yarn",
]
