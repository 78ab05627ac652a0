"""Tiny random models of transformers, one or more per family: sizes all different, no parameter at its default."""

import zlib
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

IDS = {"bos_token_id": 3, "pad_token_id": 1, "eos_token_id": 2}
LENGTH = 64  # rows of the position tables
# Of a head that divides by the root of the width, and of heads that give one number for a whole text.
ENLARGED = ("shared.weight", "score.weight", "classifier.weight", "classifier.out_proj.weight", "qa_outputs.weight")
ENLARGED += ("seq_relationship.weight", "classification_head.out_proj.weight")
BINS, HEARD = 7, 23  # numbers per frame of sound; positions of its encoder, two frames each


def randomised(model: Any) -> Any:
    """Every parameter drawn anew from its name, so that gains are not 1 and biases not 0; eval mode."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith("final_logits_bias") or value.requires_grad:  # not the tables of sinusoids
            seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            drawn = torch.randn(value.shape, generator=seed)
            matrix = value.dim() > 1 and value.shape[0] > 1
            around = value.data.round().clamp(0, 1) if not matrix else 0.0  # gains stay around where they start
            size = 3.0 if name.endswith(ENLARGED) else 1.0
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
ROTARY_LONG = {
    "rope_type": "longrope",
    "rope_theta": 200.0,
    "partial_rotary_factor": 0.5,
    "short_factor": [1.1, 1.3, 1.2],
    "long_factor": [1.5, 3.0, 4.0],
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


def phi3(**changes: Any) -> Any:
    sizes = rotary_sizes(hidden_size=48, num_attention_heads=4, sliding_window=7, **changes)
    return hf.Phi3ForCausalLM(hf.Phi3Config(**{key: value for key, value in sizes.items() if key != "head_dim"}))


def phi3_long() -> Any:
    """Short factors up to 32 tokens, long ones beyond."""
    return phi3(original_max_position_embeddings=32, rope_parameters=dict(ROTARY_LONG))


def olmo2(**changes: Any) -> Any:
    return hf.Olmo2ForCausalLM(hf.Olmo2Config(**rotary_sizes(**changes)))


def starcoder2(**changes: Any) -> Any:
    sizes = rotary_sizes(hidden_size=48, num_attention_heads=4, norm_epsilon=1e-2, **changes)
    sizes = {key: value for key, value in sizes.items() if key not in ("head_dim", "rms_norm_eps")}
    return hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**sizes))


def gemma() -> Any:
    return hf.GemmaForCausalLM(hf.GemmaConfig(**rotary_sizes()))


def gemma2() -> Any:
    caps = {"final_logit_softcapping": 3.0, "attn_logit_softcapping": 1.0, "query_pre_attn_scalar": 5}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**rotary_sizes(sliding_window=7, layer_types=LOCAL_GLOBAL, **caps)))


def gemma3_sizes() -> dict[str, Any]:
    rope = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0},
    }
    more = {"sliding_window": 7, "layer_types": LOCAL_GLOBAL, "query_pre_attn_scalar": 5, "rope_parameters": rope}
    return rotary_sizes(**more)


def gemma3() -> Any:
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**gemma3_sizes()))


def gemma3_pictures() -> Any:
    """Beside what it needs to see."""
    sight = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2}
    sight |= {"image_size": 28, "patch_size": 14}
    whole = hf.Gemma3Config(text_config=gemma3_sizes(), vision_config=sight, mm_tokens_per_image=4, **IDS)
    return hf.Gemma3ForConditionalGeneration(whole)


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


def xlm_roberta() -> Any:
    return hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**bert_sizes(type_vocab_size=1, hidden_act="gelu_new")))


def roberta() -> Any:
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**bert_sizes(pad_token_id=4, type_vocab_size=1)))


def mpnet() -> Any:
    """Its positions begin behind row 1, whatever the padding's id."""
    sizes = {key: value for key, value in bert_sizes().items() if key != "type_vocab_size"}
    return hf.MPNetForMaskedLM(hf.MPNetConfig(**sizes))


def distilbert_config() -> Any:
    sizes = {"vocab_size": 41, "dim": 20, "hidden_dim": 28, "n_layers": 3, "n_heads": 5}
    return hf.DistilBertConfig(**{**sizes, **IDS, "max_position_embeddings": LENGTH, "pad_token_id": 0})


def albert_config() -> Any:
    """Three layers share one set of weights, two another."""
    sizes = {"embedding_size": 12, "num_hidden_layers": 5, "num_hidden_groups": 2}
    return hf.AlbertConfig(**bert_sizes(**sizes, pad_token_id=0))


def modernbert_config(**changes: Any) -> Any:
    """Layers 0 and 3 see everything."""
    sizes = {"vocab_size": 41, "hidden_size": 40, "intermediate_size": 28, "num_hidden_layers": 4}
    more = {"num_attention_heads": 4, "max_position_embeddings": LENGTH, "norm_eps": 1e-3, "local_attention": 8}
    return hf.ModernBertConfig(**{**sizes, **more, **IDS, **changes})


def modernbert_biases() -> Any:
    biases = dict.fromkeys(["attention_bias", "mlp_bias", "norm_bias", "classifier_bias"], True)
    rope = {
        "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    }
    bends = {"hidden_activation": "silu", "classifier_activation": "relu"}
    more = {"num_hidden_layers": 3, "layer_types": LOCAL_GLOBAL, "rope_parameters": rope, "tie_word_embeddings": False}
    return hf.ModernBertForMaskedLM(modernbert_config(**biases, **bends, **more, decoder_bias=False))


def t5(**changes: Any) -> Any:
    sizes = {"vocab_size": 37, "d_model": 20, "d_kv": 6, "d_ff": 28, "num_layers": 2, "num_decoder_layers": 3}
    more = {"num_heads": 5, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    start = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2, "layer_norm_epsilon": 1e-3}
    return hf.T5ForConditionalGeneration(hf.T5Config(**{**sizes, **more, **start, **changes}))


def mt5(**changes: Any) -> Any:
    derived = ("dense_act_fn", "is_gated_act", "model_type", "scale_decoder_outputs")
    sizes = {key: value for key, value in t5(**changes).config.to_dict().items() if key not in derived}
    sizes["feed_forward_proj"] = "gated-gelu"
    return hf.MT5ForConditionalGeneration(hf.MT5Config(**sizes))


def flan_t5(make: Callable[..., Any] = t5) -> Any:
    """With a head of its own, which the home library has not built so since it writes tie_word_embeddings always."""
    home = make(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
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


def mbart() -> Any:
    return hf.MBartForConditionalGeneration(hf.MBartConfig(**two_stacks(scale_embedding=True)))


def pegasus() -> Any:
    sizes = two_stacks(scale_embedding=True, decoder_start_token_id=1)
    return hf.PegasusForConditionalGeneration(
        hf.PegasusConfig(**{key: value for key, value in sizes.items() if key != "bos_token_id"})
    )


def whisper_config() -> Any:
    sizes = two_stacks(num_mel_bins=BINS, max_source_positions=HEARD, max_target_positions=LENGTH)
    sizes |= {"suppress_tokens": None, "begin_suppress_tokens": None}
    return hf.WhisperConfig(**{key: value for key, value in sizes.items() if key != "max_position_embeddings"})


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
    "gemma3, with pictures": gemma3_pictures,
    "phi3": phi3,
    "phi3, longrope": phi3_long,
    "olmo2": olmo2,
    "olmo2, biases": lambda: olmo2(attention_bias=True, tie_word_embeddings=True),
    "starcoder2": lambda: starcoder2(sliding_window=7),
    "starcoder2, no biases": lambda: starcoder2(use_bias=False, tie_word_embeddings=False),
    "gpt_neox": neox,
    "gpt_neox, one after the other": lambda: neox(use_parallel_residual=False),
    "bert": bert,
    "bert, plain": bert_plain,
    "roberta": roberta,
    "xlm-roberta": xlm_roberta,
    "mpnet": mpnet,
    "distilbert": lambda: hf.DistilBertForMaskedLM(distilbert_config()),
    "distilbert, plain": lambda: hf.DistilBertModel(distilbert_config()),
    "albert": lambda: hf.AlbertForMaskedLM(albert_config()),
    "albert, plain": lambda: hf.AlbertModel(albert_config(), add_pooling_layer=False),
    "modernbert": lambda: hf.ModernBertForMaskedLM(modernbert_config()),
    "modernbert, biases": modernbert_biases,
    "modernbert, plain": lambda: hf.ModernBertModel(modernbert_config()),
    "t5": t5,
    "t5, plain": lambda: hf.T5Model(t5().config),
    "t5, encoder": lambda: hf.T5EncoderModel(t5().config),
    "flan-t5": flan_t5,
    "mt5": lambda: flan_t5(mt5),
    "mt5, tied": mt5,
    "bart": bart,
    "marian": marian,
    "marian, two vocabularies": lambda: marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=43),
    "m2m_100": m2m100,
    "mbart": mbart,
    "pegasus": pegasus,
    "whisper": lambda: hf.WhisperForConditionalGeneration(whisper_config()),
    "whisper, plain": lambda: hf.WhisperModel(whisper_config()),
}
