"""A RoBERTa that fairseq trained on residues of proteins, in the home library's format. It has no token types."""

import argparse
import json
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

NAMES = {
    r"^decoder\.sentence_encoder\.": "roberta.",
    r"^decoder\.lm_head\.": "lm_head.",
    r"roberta\.embed_tokens": "roberta.embeddings.word_embeddings",
    r"roberta\.embed_positions": "roberta.embeddings.position_embeddings",
    r"roberta\.emb_layer_norm": "roberta.embeddings.LayerNorm",
    r"roberta\.layers": "roberta.encoder.layer",
    r"self_attn\.q_proj": "attention.self.query",
    r"self_attn\.k_proj": "attention.self.key",
    r"self_attn\.v_proj": "attention.self.value",
    r"self_attn\.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
    r"lm_head\.weight": "lm_head.decoder.weight",
}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def vocabulary(file: Path) -> list[str]:
    return [*SPECIAL, *(line.split()[0] for line in file.read_text().splitlines()), "<mask>"]


def write(file: Path, vocab: list[str], folder: Path) -> None:
    """A folder for `load`."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        stored = torch.load(file, weights_only=True, map_location="cpu")
    said, tensors = stored["args"], {}
    for name, value in stored["model"].items():
        for theirs, ours in NAMES.items():
            name = re.sub(theirs, ours, name)
        tensors[name] = value.clone()
    tensors["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, said.encoder_embed_dim)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    sizes = {"hidden_size": said.encoder_embed_dim, "intermediate_size": said.encoder_ffn_embed_dim}
    sizes |= {"num_hidden_layers": said.encoder_layers, "num_attention_heads": said.encoder_attention_heads}
    sizes |= {"vocab_size": len(vocab), "max_position_embeddings": said.max_positions + 2, "type_vocab_size": 1}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5}
    named = {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "hidden_act": said.activation_fn}
    (folder / "config.json").write_text(json.dumps({**named, **sizes, **ids}))
