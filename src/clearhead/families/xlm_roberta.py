"""XLM-R (Conneau et al. 2020): RoBERTa in a hundred languages."""

from dataclasses import replace

from clearhead.families import roberta

FAMILY = replace(roberta.FAMILY, architectures=roberta.classes("XLMRoberta"))
