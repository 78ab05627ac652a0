"""The config.json of published models as their authors wrote it, old keys included: read, and of the right size."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from clearhead.model.transformer import Transformer
from families.folders import config_of, said
from families.published import MORE
from families.published_translators import TRANSLATORS

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.35.0",
    "use_cache": True,
}
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "TinyLlama-1.1B": (
        LLAMA
        | {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_hidden_layers": 22}
        | {"num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False},
        1_100_048_384,
    ),
    "SmolLM2-135M": (
        LLAMA
        | {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_hidden_layers": 30}
        | {"num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True, "rope_theta": 100000}
        | {"is_llama_config": True, "rope_interleaved": False, "bos_token_id": 0, "eos_token_id": 0},
        134_515_008,
    ),
    "Llama-3.2-1B": (
        LLAMA
        | {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16}
        | {"num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True, "head_dim": 64}
        | {"mlp_bias": False, "rope_theta": 500000.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008]}
        | {
            "rope_scaling": {
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            }
        },
        1_235_814_400,
    ),
    "Mistral-7B-v0.1": (
        {key: value for key, value in LLAMA.items() if key not in ("pretraining_tp", "attention_bias")}
        | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 4096}
        | {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32}
        | {"num_key_value_heads": 8, "vocab_size": 32000, "tie_word_embeddings": False},
        7_241_732_096,
    ),
    "Qwen2.5-0.5B": (
        {key: value for key, value in LLAMA.items() if key not in ("pretraining_tp", "attention_bias")}
        | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False}
        | {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_hidden_layers": 24}
        | {"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True, "use_mrope": False}
        | {"max_window_layers": 24, "sliding_window": 32768, "rope_theta": 1000000.0},
        494_032_768,
    ),
    "Qwen3-0.6B": (
        {key: value for key, value in LLAMA.items() if key != "pretraining_tp"}
        | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "use_sliding_window": False}
        | {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16, "num_hidden_layers": 28}
        | {"num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": True, "head_dim": 128}
        | {"max_window_layers": 28, "sliding_window": None, "rope_theta": 1000000},
        596_049_920,
    ),
    "gemma-2-2b": (
        {
            "architectures": ["Gemma2ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_logit_softcapping": 50.0,
            "bos_token_id": 2,
            "cache_implementation": "hybrid",
            "eos_token_id": 1,
            "final_logit_softcapping": 30.0,
            "head_dim": 256,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 2304,
            "initializer_range": 0.02,
            "intermediate_size": 9216,
            "max_position_embeddings": 8192,
            "model_type": "gemma2",
            "num_attention_heads": 8,
            "num_hidden_layers": 26,
            "num_key_value_heads": 4,
            "pad_token_id": 0,
            "query_pre_attn_scalar": 256,
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000.0,
            "sliding_window": 4096,
            "torch_dtype": "float32",
            "use_cache": True,
            "vocab_size": 256000,
        },
        2_614_341_888,
    ),
    "pythia-70m": (
        {
            "architectures": ["GPTNeoXForCausalLM"],
            "bos_token_id": 0,
            "eos_token_id": 0,
            "hidden_act": "gelu",
            "hidden_size": 512,
            "initializer_range": 0.02,
            "intermediate_size": 2048,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 2048,
            "model_type": "gpt_neox",
            "num_attention_heads": 8,
            "num_hidden_layers": 6,
            "rotary_emb_base": 10000,
            "rotary_pct": 0.25,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "use_cache": True,
            "use_parallel_residual": True,
            "vocab_size": 50304,
        },
        70_426_624,
    ),
    "gpt2": (
        {
            "activation_function": "gelu_new",
            "architectures": ["GPT2LMHeadModel"],
            "attn_pdrop": 0.1,
            "bos_token_id": 50256,
            "embd_pdrop": 0.1,
            "eos_token_id": 50256,
            "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05,
            "model_type": "gpt2",
            "n_ctx": 1024,
            "n_embd": 768,
            "n_head": 12,
            "n_layer": 12,
            "n_positions": 1024,
            "resid_pdrop": 0.1,
            "summary_activation": None,
            "summary_first_dropout": 0.1,
            "summary_proj_to_labels": True,
            "summary_type": "cls_index",
            "summary_use_proj": True,
            "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
            "vocab_size": 50257,
        },
        124_439_808,
    ),
    "t5-small": (
        {
            "architectures": ["T5ForConditionalGeneration"],
            "d_ff": 2048,
            "d_kv": 64,
            "d_model": 512,
            "decoder_start_token_id": 0,
            "dropout_rate": 0.1,
            "eos_token_id": 1,
            "initializer_factor": 1.0,
            "is_encoder_decoder": True,
            "layer_norm_epsilon": 1e-06,
            "model_type": "t5",
            "n_positions": 512,
            "num_heads": 8,
            "num_layers": 6,
            "output_past": True,
            "pad_token_id": 0,
            "relative_attention_num_buckets": 32,
            "task_specific_params": {"summarization": {"num_beams": 4}},
            "vocab_size": 32128,
        },
        60_506_624,
    ),
    "bart-base": (
        {
            "activation_dropout": 0.1,
            "activation_function": "gelu",
            "add_bias_logits": False,
            "add_final_layer_norm": False,
            "architectures": ["BartModel"],
            "attention_dropout": 0.1,
            "bos_token_id": 0,
            "classif_dropout": 0.1,
            "classifier_dropout": 0.0,
            "d_model": 768,
            "decoder_attention_heads": 12,
            "decoder_ffn_dim": 3072,
            "decoder_layerdrop": 0.0,
            "decoder_layers": 6,
            "decoder_start_token_id": 2,
            "dropout": 0.1,
            "early_stopping": True,
            "encoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "encoder_layerdrop": 0.0,
            "encoder_layers": 6,
            "eos_token_id": 2,
            "forced_bos_token_id": 0,
            "forced_eos_token_id": 2,
            "gradient_checkpointing": False,
            "id2label": {"0": "LABEL_0"},
            "init_std": 0.02,
            "is_encoder_decoder": True,
            "label2id": {"LABEL_0": 0},
            "max_position_embeddings": 1024,
            "model_type": "bart",
            "no_repeat_ngram_size": 3,
            "normalize_before": False,
            "normalize_embedding": True,
            "num_beams": 4,
            "num_hidden_layers": 6,
            "pad_token_id": 1,
            "scale_embedding": False,
            "torch_dtype": "float32",
            "use_cache": True,
            "vocab_size": 50265,
        },
        139_420_416,
    ),
    "bert-base-uncased": (
        {
            "architectures": ["BertModel"],
            "attention_probs_dropout_prob": 0.1,
            "gradient_checkpointing": False,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": 768,
            "initializer_range": 0.02,
            "intermediate_size": 3072,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 512,
            "model_type": "bert",
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            "type_vocab_size": 2,
            "use_cache": True,
            "vocab_size": 30522,
        },
        109_482_240 - 768 * 769,  # the published number counts the pooler
    ),
    **MORE,
    **TRANSLATORS,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_are_understood(name: str) -> None:
    content, size = PUBLISHED[name]
    with torch.device("meta"):
        model = Transformer(config_of(content))
    assert sum(p.numel() for p in model.parameters()) == size


@pytest.mark.parametrize("name", PUBLISHED)
def test_todays_spelling_comes_to_the_same_model(name: str, tmp_path: Path) -> None:
    """What the home library makes of the file, and would write today, with all its defaults."""
    content, size = PUBLISHED[name]
    (tmp_path / "config.json").write_text(json.dumps(content))
    home = hf.AutoConfig.from_pretrained(tmp_path)
    today = {**json.loads(home.to_json_string(use_diff=False)), "architectures": content["architectures"]}
    assert said(config_of(today)) == said(config_of(content))
    with torch.device("meta"):
        parameters = getattr(hf, content["architectures"][0])(home).named_parameters()
    assert sum(p.numel() for part, p in parameters if "pooler" not in part) == size
