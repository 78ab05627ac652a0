import torch


def causal_attention(q, k, v):
    """q, k, v: (B, H, T, d). Each token sees itself and what came before."""
    T = q.shape[-2]
    att = (q @ k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
    mask = torch.tril(torch.ones(T, T))
    att = att.masked_fill(mask == 0, float("-inf"))
    att = torch.softmax(att, dim=-1)
    return att @ v


# @ causal-missing
# -     att = att.masked_fill(mask == 0, float("-inf"))
# @ causal-reversed
# - torch.tril
# + torch.triu
# @ causal-diagonal-excluded
# - torch.tril(torch.ones(T, T))
# + torch.tril(torch.ones(T, T), diagonal=-1)
# @ causal-diagonal-excluded
# - torch.tril(torch.ones(T, T))
# + torch.tril(torch.ones(T, T), diagonal=-1)
# - float("-inf")
# + -1e9
# @ causal-one-ahead
# - torch.tril(torch.ones(T, T))
# + torch.tril(torch.ones(T, T), diagonal=1)
# @ mask-after-softmax
# -     att = att.masked_fill(mask == 0, float("-inf"))
# -     att = torch.softmax(att, dim=-1)
# +     att = torch.softmax(att, dim=-1)
# +     att = att.masked_fill(mask == 0, 0.0)
# @ mask-zero-before-softmax
# -     att = att.masked_fill(mask == 0, float("-inf"))
# +     att = torch.tril(att)
# @ mask-zero-before-softmax
# - float("-inf")
# + 0
# @ causal-missing mask-not-assigned
# - att = att.masked_fill
# + att.masked_fill
# @ mask-too-small
# - float("-inf")
# + -10.0
# @ scale-missing
# -  * (q.shape[-1] ** -0.5)
# @ scale-wrong-axis
# - q.shape[-1] ** -0.5
# + q.shape[1] ** -0.5
# @ softmax-dim-heads
# - dim=-1
# + dim=1
# @ softmax-dim-query
# - dim=-1
# + dim=2
# @ softmax-dim-batch
# - dim=-1
# + dim=0
# @ softmax-heads-and-keys
# - torch.softmax(att, dim=-1)
# + torch.softmax(att.transpose(1, 2).flatten(2), dim=-1).view(q.shape[0], T, q.shape[1], T).transpose(1, 2)
# @ causal-reversed
# -     mask = torch.tril(torch.ones(T, T))
# -     att = att.masked_fill(mask == 0, float("-inf"))
# -     att = torch.softmax(att, dim=-1)
# -     return att @ v
# +     hide = torch.triu(torch.ones(T, T), 1).bool()
# +     return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hide)
# @ einsum-sums-heads
# - q @ k.transpose(-2, -1)
# + torch.einsum("bhqd,bhkd->bqk", q, k).unsqueeze(1)
# @ attend-over-heads
# - q @ k.transpose(-2, -1)
# + q.transpose(1, 2) @ k.transpose(1, 2).transpose(-2, -1)
# -     mask = torch.tril(torch.ones(T, T))
# -     att = att.masked_fill(mask == 0, float("-inf"))
# +
# - att @ v
# + (att @ v.transpose(1, 2)).transpose(1, 2)
# @ right
# -     mask = torch.tril(torch.ones(T, T))
# -     att = att.masked_fill(mask == 0, float("-inf"))
# -     att = torch.softmax(att, dim=-1)
# -     return att @ v
# +     return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
# @ right
# -     mask = torch.tril(torch.ones(T, T))
# -     att = att.masked_fill(mask == 0, float("-inf"))
# +     att = att + torch.full((T, T), float("-inf")).triu(1)
# @ right
# - T = q.shape[-2]
# + T, S = q.shape[-2], k.shape[-2]
# - torch.tril(torch.ones(T, T))
# + torch.ones(T, S).tril(S - T)
