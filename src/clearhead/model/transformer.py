"""The Transformer: up to two stacks and a head, one code path for every kind of model."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config import TransformerConfig
from clearhead.model.cache import Cache
from clearhead.model.head import Head
from clearhead.model.init import initialise
from clearhead.model.inputs import Text, check, check_labels, check_memory, check_use
from clearhead.model.stack import Memory, Stack
from clearhead.tap import SILENT, Tap
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer


class Output(NamedTuple):
    """What a forward pass gives. What was not asked for, or has no meaning for this model, is None."""

    logits: Tensor | None = None  # [B T V]
    loss: Tensor | None = None  # per target token, if labels were given
    hidden: Tensor | None = None  # [B T D] last states of the decoder, or of the encoder where there is no decoder
    encoder_hidden: Tensor | None = None  # [B K D]
    cache: Cache | None = None


class Transformer(nn.Module):
    """`Transformer(config)`: encoder, decoder or both. New models are drawn from torch's global generator."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.tokenizer: Tokenizer | Pair | None = None
        self.tap: Tap = SILENT
        self.encoder = None if config.encoder is None else Stack(config.encoder, config)
        self.decoder = None if config.decoder is None else Stack(config.decoder, config)
        if config.shared_embeddings and self.encoder is not None and self.decoder is not None:
            self.decoder.embedding = self.encoder.embedding
        self.head = None if config.head is None else Head(config.head, config, self.last.form)
        if not self.last.embedding.weight.is_meta:  # there are no numbers to draw where there is no memory
            initialise(self, config)

    @property
    def last(self) -> Stack:
        """The stack below the head."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        positions: Tensor | None = None,
        labels: Tensor | None = None,
        encoder_hidden: Tensor | None = None,
        cache: Cache | None = None,
        tap: Tap | None = None,
    ) -> Output:
        """Ids [B, T] int64 to logits [B, T, V].

        input_ids feed the encoder, or the decoder where there is no encoder. attention_mask [B, T]: 1 = a token, 0 =
        padding (with a cache: of the new tokens or of all). labels [B, T], -100 = ignored: a decoder alone predicts
        labels[:, 1:], a decoder beside an encoder predicts labels and is fed them shifted right unless
        decoder_input_ids are given, an encoder alone predicts labels in place. positions [B, T] replace those that
        follow from the mask; where they start again, a new packed document begins. encoder_hidden [B, K, D]: states
        from `encode`, instead of input_ids. cache: see Cache. tap: a listener for this call, instead of `self.tap`.

        Raises ValueError naming the argument, the numbers and the fix, before any compute.
        """
        tap = self.tap if tap is None else tap
        source, target = self._texts(
            Text("input_ids", input_ids, attention_mask, positions, token_type_ids),
            Text("decoder_input_ids", decoder_input_ids, decoder_attention_mask, positions),
            labels,
            encoder_hidden,
            cache,
        )
        encoded = encoder_hidden
        if self.encoder is not None and encoded is None:
            encoded = self.encoder(source, tap=tap.at("encoder"))
        hidden = encoded
        if self.decoder is not None:
            hidden = self.decoder(target, self._memory(encoded, attention_mask), cache, tap.at("decoder"))
        assert hidden is not None
        logits = None if self.head is None else tap("logits", self.head(hidden, self.last.embedding.weight))
        return Output(logits, self._loss(logits, labels), hidden, encoded, cache)

    def _texts(
        self, source: Text, target: Text, labels: Tensor | None, encoder_hidden: Tensor | None, cache: Cache | None
    ) -> tuple[Text, Text]:
        """What the encoder and the decoder read (the same where there is one stack), checked with what goes along."""
        check_use(self.config, target, encoder_hidden, cache, labels)
        if self.encoder is None or self.decoder is None:
            target = source
        else:
            source, target = source._replace(positions=None), target._replace(given=self._fed(target.given, labels))
        if self.encoder is not None and encoder_hidden is None:
            check(source, self.encoder.form)
        if self.decoder is not None:
            check(target, self.decoder.form, cache)
        if self.encoder is not None and self.decoder is not None:
            check_memory(encoder_hidden, source, target, self.config.dim)
        if labels is not None:
            check_labels(labels, target.ids, self.last.form.vocab)
        return source, target

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None, tap: Tap | None = None) -> Tensor:
        """The encoder's states [B, K, D], for reuse as `encoder_hidden`."""
        if self.encoder is None:
            raise ValueError("encode needs an encoder, but config.encoder is None; this model has a decoder only")
        source = Text("input_ids", input_ids, attention_mask)
        check(source, self.encoder.form)
        return self.encoder(source, tap=(self.tap if tap is None else tap).at("encoder"))

    def _memory(self, encoded: Tensor | None, mask: Tensor | None) -> Memory | None:
        """What the decoder sees of the encoder, if there is one."""
        if self.encoder is None or encoded is None:
            return None
        return Memory(encoded, None if mask is None else mask != 0)

    def _fed(self, decoder_input_ids: Tensor | None, labels: Tensor | None) -> Tensor:
        if decoder_input_ids is not None:
            return decoder_input_ids
        if labels is None:
            raise ValueError("decoder_input_ids is missing; a decoder beside an encoder needs them, or labels to shift")
        start = self.config.bos if self.config.start is None else self.config.start
        if start is None or self.config.pad is None:
            raise ValueError("labels can be shifted only if config.start (or bos) and config.pad are set; set them")
        return shift_right(labels, start, self.config.pad)

    def _loss(self, logits: Tensor | None, labels: Tensor | None) -> Tensor | None:
        """Mean cross-entropy over the labels that are not -100; 0 if there are none."""
        if logits is None or labels is None:
            return None
        if self.encoder is None:
            logits, labels = logits[:, :-1], labels[:, 1:]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        return total / (labels != -100).sum().clamp(min=1)


def shift_right(labels: Tensor, start: int, pad: int) -> Tensor:
    """What the decoder is fed so that position t predicts labels[:, t]: start, then labels without the last.

    labels [B, T]; -100 becomes pad. Raises ValueError if there is no such batch.
    """
    if labels.dim() != 2:
        raise ValueError(f"labels is {list(labels.shape)}; expected [batch, tokens]; one text: labels[None]")
    shifted = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, pad)
