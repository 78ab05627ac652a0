"""More of them: encoders and decoders."""

from typing import Any

Content = dict[str, Any]


def stacks(layers: int, heads: int, hidden: int) -> Content:
    sizes = {"layers": layers, "attention_heads": heads, "ffn_dim": hidden, "layerdrop": 0.0}
    return {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()}


WHISPER: Content = {
    **stacks(4, 6, 1536),
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "architectures": ["WhisperForConditionalGeneration"],
    "attention_dropout": 0.0,
    "begin_suppress_tokens": [220, 50256],
    "bos_token_id": 50257,
    "d_model": 384,
    "decoder_start_token_id": 50257,
    "dropout": 0.0,
    "eos_token_id": 50256,
    "forced_decoder_ids": [[1, 50362]],
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "max_length": 448,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "model_type": "whisper",
    "num_hidden_layers": 4,
    "num_mel_bins": 80,
    "pad_token_id": 50256,
    "scale_embedding": False,
    "suppress_tokens": [1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29, 31],
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 51864,
}
MBART: Content = {
    **stacks(12, 16, 4096),
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "add_bias_logits": False,
    "add_final_layer_norm": True,
    "architectures": ["MBartForConditionalGeneration"],
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "classifier_dropout": 0.0,
    "d_model": 1024,
    "decoder_start_token_id": 250020,
    "dropout": 0.1,
    "eos_token_id": 2,
    "gradient_checkpointing": False,
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "max_length": 200,
    "max_position_embeddings": 1024,
    "model_type": "mbart",
    "normalize_before": True,
    "normalize_embedding": True,
    "num_beams": 5,
    "num_hidden_layers": 12,
    "output_past": True,
    "pad_token_id": 1,
    "scale_embedding": True,
    "static_position_embeddings": False,
    "vocab_size": 250027,
}
TRANSLATORS: dict[str, tuple[Content, int]] = {
    "whisper-tiny.en": (WHISPER, 37_760_256),
    "mbart-large-en-ro": (MBART, 610_851_840),
}
