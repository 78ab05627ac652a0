"""The Transformer: up to two stacks and a head, one code path for every kind of model."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from clearhead import config as forms
from clearhead.config import TransformerConfig
from clearhead.model.cache import Cache
from clearhead.model.head import Head
from clearhead.model.init import initialise
from clearhead.model.inputs import (
    Sound,
    Text,
    again,
    check,
    check_memory,
    check_pairs,
    check_sound,
    check_use,
)
from clearhead.model.loss import check_labels, loss_of
from clearhead.model.stack import Memory, Stack
from clearhead.model.task import EmbeddingHead, TextHead, TokenHead, check_candidates
from clearhead.tap import SILENT, Tap
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer


class Output(NamedTuple):
    """What a forward pass gives. What was not asked for, or has no meaning for this model, is None."""

    logits: Tensor | None = None  # [B T V]; of labels [B L] or [B T L]; of an answer's ends [B T 2]
    loss: Tensor | None = None  # per target token, if labels were given
    hidden: Tensor | None = None  # [B T D] last states of the decoder, or of the encoder where there is no decoder
    encoder_hidden: Tensor | None = None  # [B K D]
    cache: Cache | None = None
    embedding: Tensor | None = None  # [B D] of each text
    start_logits: Tensor | None = None  # [B T] whether the answer starts there
    end_logits: Tensor | None = None  # [B T] whether it ends there


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
        self.head = _head(config, self.last.form)
        if not next(self.parameters()).is_meta:  # there are no numbers to draw where there is no memory
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
        input_features: Tensor | None = None,
    ) -> Output:
        """Ids [B, T] int64 to logits [B, T, V].

        input_ids feed the encoder, or the decoder where there is no encoder. attention_mask [B, T]: 1 = a token, 0 =
        padding (with a cache: of the new tokens or of all). labels [B, T], -100 = ignored: a decoder alone predicts
        labels[:, 1:], a decoder beside an encoder predicts labels and is fed them shifted right unless
        decoder_input_ids are given, an encoder alone predicts labels in place (of other heads: see check_labels).
        positions [B, T] replace those that follow from the mask; where they start again, a new packed document begins.
        encoder_hidden [B, K, D]: states from `encode`, instead of input_ids. cache: see Cache. tap: a listener for this
        call, instead of `self.tap`. input_features [B, bins, frames], such as log-mel spectrograms: what an encoder
        with `audio` hears, instead of input_ids; it has no mask, a short sound is filled up with silence.

        Raises ValueError naming the argument, the numbers and the fix, before any compute.
        """
        tap = self.tap if tap is None else tap
        source, target = self._texts(
            Text("input_ids", input_ids, attention_mask, positions, token_type_ids),
            Sound(input_features),
            Text("decoder_input_ids", decoder_input_ids, decoder_attention_mask, positions),
            labels,
            encoder_hidden,
            cache,
        )
        encoded = encoder_hidden
        if self.encoder is not None and encoded is None:
            encoded = self.encoder(source, tap=tap.text("encoder", source.given, None).at("encoder"))
        hidden = encoded
        if self.decoder is not None:
            tap = tap.text("decoder", target.given, cache)
            hidden = self.decoder(target, self._memory(encoded, attention_mask), cache, tap.at("decoder"))
        assert hidden is not None
        given = Text("input_ids", input_ids, attention_mask) if input_features is None else Sound(input_features)
        out = self._result(hidden, given, tap)
        loss = self._loss(out.logits, labels, attention_mask)
        return out._replace(loss=loss, hidden=hidden, encoder_hidden=encoded, cache=cache)

    def _result(self, hidden: Tensor, given: Text | Sound, tap: Tap) -> Output:
        """What the head makes of the last states."""
        if self.head is None:
            return Output()
        if isinstance(self.head, Head):
            return Output(tap("logits", self.head(hidden, self.last.table)))
        found: Tensor = self.head(hidden, given, tap)
        if isinstance(self.head, EmbeddingHead):
            return Output(embedding=found)
        ends = found.unbind(-1) if isinstance(self.config.head, forms.AnswerSpan) else (None, None)
        return Output(found, start_logits=ends[0], end_logits=ends[1])

    def _texts(
        self,
        source: Text,
        sound: Sound,
        target: Text,
        labels: Tensor | None,
        encoder_hidden: Tensor | None,
        cache: Cache | None,
    ) -> tuple[Text | Sound, Text]:
        """What the encoder and the decoder read (the same where there is one stack), checked with what goes along."""
        given = {"input_ids": source.given, "attention_mask": source.mask, "token_type_ids": source.types}
        given |= {"input_features": sound.given, "positions": source.positions, "encoder_hidden": encoder_hidden}
        given |= {"decoder_input_ids": target.given, "decoder_attention_mask": target.mask, "labels": labels}
        check_use(self.config, {**given, "cache": cache})
        both = self.encoder is not None and self.decoder is not None
        if not both:
            target = source
        elif not self.config.reads_twice:
            source, target = source._replace(positions=None), target._replace(given=self._fed(target.given, labels))
        read = source if self.encoder is None or encoder_hidden is not None else self._read(source, sound)
        if self.config.reads_twice:
            target = again(source, self.config.first)
        if self.decoder is not None:
            check(target, self.decoder.form, cache)
        if both and encoder_hidden is not None:
            check_memory(encoder_hidden, source.mask, self.config.dim)
            check_pairs("encoder_hidden", len(encoder_hidden), target)
        elif both and read.given is not None:
            check_pairs(read.name, len(read.given), target)
        if isinstance(read, Text):
            check_candidates(read, getattr(self.config.head, "pool", None), self.config)
        if labels is not None and self.config.head is not None:
            at = target if both or isinstance(read, Text) else read
            batch, tokens = at.ids.shape if isinstance(at, Text) else (len(at.frames), at.length)
            check_labels(self.config.head, labels, batch, tokens, self.last.form.vocab)
        return read, target

    def _read(self, source: Text, sound: Sound) -> Text | Sound:
        """What the encoder reads or hears, checked."""
        assert self.encoder is not None
        if self.encoder.form.audio is None:
            check(source, self.encoder.form)
            return source
        check_sound(sound, self.encoder.form)
        return sound

    def encode(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        tap: Tap | None = None,
        input_features: Tensor | None = None,
    ) -> Tensor:
        """The encoder's states [B, K, D], for reuse as `encoder_hidden`."""
        if self.encoder is None:
            raise ValueError("encode needs an encoder, but config.encoder is None; this model has a decoder only")
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "input_features": input_features}
        check_use(self.config, given)
        read = self._read(Text("input_ids", input_ids, attention_mask), Sound(input_features))
        tap = self.tap if tap is None else tap
        return self.encoder(read, tap=tap.text("encoder", read.given, None).at("encoder"))

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
        start, pad = self.config.first, self.config.pad
        if start is None or pad is None:
            raise ValueError("labels can be shifted only if config.start (or bos) and config.pad are set; set them")
        return shift_right(labels, start, pad)

    def _loss(self, logits: Tensor | None, labels: Tensor | None, mask: Tensor | None) -> Tensor | None:
        if logits is None or labels is None or self.config.head is None:
            return None
        return loss_of(self.config.head, logits, labels, self.encoder is None, mask)


def _head(config: TransformerConfig, stack: forms.Stack) -> Head | TokenHead | EmbeddingHead | None:
    form = config.head
    if form is None or isinstance(form, forms.Head):
        return None if form is None else Head(form, config, stack.vocab)
    if isinstance(form, forms.TextEmbedding):
        return EmbeddingHead(form, config)
    return TextHead(form, config) if isinstance(form, forms.TextClassifier) else TokenHead(form, config)


def shift_right(labels: Tensor, start: int, pad: int) -> Tensor:
    """What the decoder is fed so that position t predicts labels[:, t]: start, then labels without the last.

    labels [B, T]; -100 becomes pad. Raises ValueError if there is no such batch.
    """
    if labels.dim() != 2:
        raise ValueError(f"labels is {list(labels.shape)}; expected [batch, tokens]; one text: labels[None]")
    shifted = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, pad)
