"""Stubs to write the exercise into: signature, contract and nothing of the solution."""

from __future__ import annotations

from pathlib import Path

HEAD = "import math\n\nimport torch\n\n\n"

STUBS = {
    "sdpa": '''def scaled_dot_product_attention(Q, K, V, mask=None):
    """Each query's weighted mean of the values: softmax(Q K^T / sqrt(d_k)) V.

    Q: (B, T_q, d_k), K: (B, T_k, d_k), V: (B, T_k, d_v).
    mask: boolean (B, T_q, T_k), True = may attend, or None.
    Returns the output (B, T_q, d_v) and the weights (B, T_q, T_k), whose rows sum to 1.
    """
    raise NotImplementedError
''',
    "causal_mask": '''def causal_attention(Q, K, V):
    """Attention in which token i sees tokens 0..i only; every weight above the diagonal is exactly 0.

    Q, K: (B, T, d_k), V: (B, T, d_v). Returns the output (B, T, d_v) and the weights (B, T, T).
    """
    raise NotImplementedError
''',
    "multi_head_attention": '''class MultiHeadAttention(torch.nn.Module):
    """Several heads side by side: each its own slice of the projections, joined and projected once more."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.W_q = torch.nn.Linear(d_model, d_model)
        self.W_k = torch.nn.Linear(d_model, d_model)
        self.W_v = torch.nn.Linear(d_model, d_model)
        self.W_o = torch.nn.Linear(d_model, d_model)
        self.num_heads = num_heads

    def forward(self, x, mask=None):
        """x: (B, T, D); mask: boolean (B, 1, T, T), True = may attend, or None. Returns (B, T, D)."""
        raise NotImplementedError
''',
    "cross_attention": '''class CrossAttention(torch.nn.Module):
    """Queries from the decoder, keys and values from the encoder."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.W_q = torch.nn.Linear(d_model, d_model)
        self.W_k = torch.nn.Linear(d_model, d_model)
        self.W_v = torch.nn.Linear(d_model, d_model)
        self.W_o = torch.nn.Linear(d_model, d_model)
        self.num_heads = num_heads

    def forward(self, x, memory, memory_mask=None):
        """x: (B, T, D), memory: (B, S, D), memory_mask: (B, S), True = may be attended. Returns (B, T, D)."""
        raise NotImplementedError
''',
    "positional_encoding": '''def positional_encoding(n, d):
    """(n, d): sine in the even columns, cosine in the odd ones, rate 1 / 10000^(2 floor(column / 2) / d)."""
    raise NotImplementedError
''',
    "decoder_shift": '''def make_training_pairs(ids):
    """ids: (B, T) token ids. Returns (inputs, targets), (B, T - 1) each: position t predicts the next token."""
    raise NotImplementedError
''',
    "kv_cache": '''class CachedAttention:
    """Attention for decoding, one new token at a time; all steps together equal one full causal pass."""

    def __init__(self):
        self.k = self.v = None

    def step(self, q, k, v):
        """q, k, v: (B, H, 1, d) of the new token. Returns its output, (B, H, 1, d)."""
        raise NotImplementedError
''',
}


def stub(task: str) -> str:
    """The text of a stub. Raises ValueError for an unknown task."""
    if task not in STUBS:
        raise ValueError(f"there is no exercise {task!r}; choose one of {', '.join(STUBS)}")
    return HEAD + STUBS[task]


def write(task: str = "sdpa", folder: str = ".") -> Path:
    """Writes `<task>.py` and returns its path. Raises ValueError rather than overwrite a file."""
    text = stub(task)
    path = Path(folder) / f"{task}.py"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path} is there already and stays as it is; move it away or work on it") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
    return path
