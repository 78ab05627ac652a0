"""Tiny random models of transformers, one or more per family: sizes all different, no parameter at its default."""

import zlib
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

IDS = {"bos_token_id": 3, "pad_token_id": 1, "eos_token_id": 2}
LENGTH = 64  # rows of the position tables


def randomised(model: Any) -> Any:
    """Every parameter drawn anew from its name, so that gains are not 1 and biases not 0; eval mode."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith("final_logits_bias") or value.requires_grad:  # not the tables of sinusoids
            seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            drawn = torch.randn(value.shape, generator=seed)
            matrix = value.dim() > 1 and value.shape[0] > 1
            around = value.data.round().clamp(0, 1) if not matrix else 0.0  # gains stay around where they start
            size = 3.0 if name == "shared.weight" else 1.0  # of a head that divides by the root of the width
            value.data = around + drawn * (size * value.shape[-1] ** -0.5 if matrix else 0.3)
    return model.eval()


def rotary_sizes(**changes: Any) -> dict[str, Any]:
    """What the decoders with rotary positions and grouped heads have in common."""
    sizes = {"vocab_size": 41, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
    more = {"max_position_embeddings": LENGTH, "rms_norm_eps": 1e-2}
    return {**sizes, **heads, **more, **IDS, **changes}


def two_stacks(**changes: Any) -> dict[str, Any]:
    """What the translators of one ancestry have in common."""
    sizes = {"vocab_size": 37, "d_model": 36, "max_position_embeddings": LENGTH, "decoder_start_token_id": 2}
    reads = {"encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 20}
    writes = {"decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 28}
    return {**sizes, **reads, **writes, **IDS, **changes}


ROTARY_BANDS = {
    "rope_type": "llama3",
    "rope_theta": 200.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
ROTARY_YARN = {
    "rope_type": "yarn",
    "rope_theta": 200.0,
    "factor": 4.0,
    "beta_fast": 3.0,
    "truncate": False,
    "beta_slow": 0.5,
    "original_max_position_embeddings": 32,
}
LOCAL_GLOBAL = ["sliding_attention", "full_attention", "sliding_attention"]


def gpt2(**changes: Any) -> Any:
    sizes = {"vocab_size": 41, "n_positions": LENGTH, "n_embd": 20, "n_layer": 3, "n_head": 5, "n_inner": 28}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**{**sizes, **IDS, "layer_norm_epsilon": 1e-3, **changes}))


def llama(**changes: Any) -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**rotary_sizes(**changes)))


def mistral() -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**rotary_sizes(sliding_window=7)))


def qwen2() -> Any:
    sizes = rotary_sizes(use_sliding_window=True, sliding_window=7, max_window_layers=1)
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**{key: value for key, value in sizes.items() if key != "head_dim"}))


def qwen3(**changes: Any) -> Any:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**rotary_sizes(**changes)))


def gemma() -> Any:
    return hf.GemmaForCausalLM(hf.GemmaConfig(**rotary_sizes()))


def gemma2() -> Any:
    caps = {"final_logit_softcapping": 3.0, "attn_logit_softcapping": 1.0, "query_pre_attn_scalar": 5}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**rotary_sizes(sliding_window=7, layer_types=LOCAL_GLOBAL, **caps)))


def gemma3() -> Any:
    rope = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0},
    }
    more = {"sliding_window": 7, "layer_types": LOCAL_GLOBAL, "query_pre_attn_scalar": 5, "rope_parameters": rope}
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**rotary_sizes(**more)))


def neox(**changes: Any) -> Any:
    sizes = {**rotary_sizes(), "hidden_size": 48, "num_attention_heads": 3}
    sizes = {
        key: value for key, value in sizes.items() if key not in ("num_key_value_heads", "head_dim", "rms_norm_eps")
    }
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**{**sizes, "layer_norm_eps": 1e-3, **changes}))


def bert_sizes(**changes: Any) -> dict[str, Any]:
    sizes = {"vocab_size": 41, "hidden_size": 20, "intermediate_size": 28, "num_hidden_layers": 3}
    more = {"num_attention_heads": 5, "max_position_embeddings": LENGTH, "type_vocab_size": 3, "layer_norm_eps": 1e-3}
    return {**sizes, **more, **IDS, **changes}


def bert() -> Any:
    return hf.BertForMaskedLM(hf.BertConfig(**bert_sizes(pad_token_id=0)))


def bert_plain() -> Any:
    return hf.BertModel(hf.BertConfig(**bert_sizes(pad_token_id=0)), add_pooling_layer=False)


def roberta() -> Any:
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**bert_sizes(pad_token_id=4, type_vocab_size=1)))


def t5(**changes: Any) -> Any:
    sizes = {"vocab_size": 37, "d_model": 20, "d_kv": 6, "d_ff": 28, "num_layers": 2, "num_decoder_layers": 3}
    more = {"num_heads": 5, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    start = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2, "layer_norm_epsilon": 1e-3}
    return hf.T5ForConditionalGeneration(hf.T5Config(**{**sizes, **more, **start, **changes}))


def flan_t5() -> Any:
    """With a head of its own, which the home library has not built so since it writes tie_word_embeddings always."""
    home = t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    home.lm_head.weight = torch.nn.Parameter(torch.empty_like(home.lm_head.weight))
    return home


def bart() -> Any:
    return hf.BartForConditionalGeneration(hf.BartConfig(**two_stacks()))


def marian(**changes: Any) -> Any:
    more = {"activation_function": "swish", "scale_embedding": True, "decoder_vocab_size": 37}
    ids = {"pad_token_id": 36, "decoder_start_token_id": 36}
    return hf.MarianMTModel(hf.MarianConfig(**two_stacks(**{**more, **ids, **changes})))


def m2m100() -> Any:
    return hf.M2M100ForConditionalGeneration(hf.M2M100Config(**two_stacks()))


HOMES: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "llama": llama,
    "llama, bands": lambda: llama(rope_parameters=ROTARY_BANDS, tie_word_embeddings=True),
    "llama, biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama, yarn": lambda: llama(rope_parameters=ROTARY_YARN),
    "llama, linear": lambda: llama(rope_parameters={"rope_type": "linear", "rope_theta": 200.0, "factor": 3.0}),
    "mistral": mistral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3": gemma3,
    "gpt_neox": neox,
    "gpt_neox, one after the other": lambda: neox(use_parallel_residual=False),
    "bert": bert,
    "bert, plain": bert_plain,
    "roberta": roberta,
    "t5": t5,
    "flan-t5": flan_t5,
    "bart": bart,
    "marian": marian,
    "marian, two vocabularies": lambda: marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=43),
    "m2m_100": m2m100,
}
