import math

import torch
import torch.nn.functional as F


def scaled_dot_product_attention(Q, K, V, mask=None):
    """Attention of Vaswani et al. The mask is boolean, True = may attend."""
    d_k = Q.size(-1)
    scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, V)


# @ scale-missing
# -  / math.sqrt(d_k)
# @ scale-dk-not-sqrt
# - math.sqrt(d_k)
# + d_k
# @ scale-dk-not-sqrt
# - math.sqrt(d_k)
# + (d_k ** 1 / 2)
# @ scale-inverted
# - / math.sqrt(d_k)
# + * math.sqrt(d_k)
# @ scale-inverted
# - / math.sqrt(d_k)
# + / d_k**-0.5
# @ scale-seq-len
# - Q.size(-1)
# + Q.size(-2)
# @ scale-seq-len
# - math.sqrt(d_k)
# + math.sqrt(K.shape[-2])
# @ scale-wrong-axis
# - Q.size(-1)
# + Q.size(0)
# @ scale-dv
# - Q.size(-1)
# + V.size(-1)
# @ scale-hardcoded
# - math.sqrt(d_k)
# + 8.0
# @ scale-hardcoded
# - / math.sqrt(d_k)
# + * 0.5
# @ scale-hardcoded
# - / math.sqrt(d_k)
# + / math.sqrt(512)
# @ scale-int-sqrt
# - math.sqrt(d_k)
# + int(math.sqrt(d_k))
# @ floor-division
# - / math.sqrt(d_k)
# + // math.sqrt(d_k)
# @ scale-fourth-root-once
# - math.sqrt(d_k)
# + d_k**0.25
# @ scale-double
# -     weights = F.softmax(scores, dim=-1)
# -     return torch.matmul(weights, V)
# +     return F.scaled_dot_product_attention(Q / math.sqrt(d_k), K, V, attn_mask=mask)
# @ scale-after-softmax
# -  / math.sqrt(d_k)
# +
# - F.softmax(scores, dim=-1)
# + F.softmax(scores, dim=-1) / math.sqrt(d_k)
# @ softmax-dim-query
# - dim=-1
# + dim=-2
# @ softmax-dim-query
# - dim=-1
# + dim=1
# @ softmax-dim-batch
# - dim=-1
# + dim=0
# @ softmax-implicit-dim
# - F.softmax(scores, dim=-1)
# + F.softmax(scores)
# @ softmax-global
# - F.softmax(scores, dim=-1)
# + F.softmax(scores.flatten(-2), dim=-1).view_as(scores)
# @ softmax-missing
# - F.softmax(scores, dim=-1)
# + scores
# @ softmax-linear-norm
# - F.softmax(scores, dim=-1)
# + scores / scores.sum(dim=-1, keepdim=True)
# @ softmax-unnormalised
# - F.softmax(scores, dim=-1)
# + torch.exp(scores)
# @ softmax-twice
# - weights, V
# + F.softmax(weights, dim=-1), V
# @ softmax-sigmoid
# - F.softmax(scores, dim=-1)
# + torch.sigmoid(scores)
# @ softmax-log
# - F.softmax(
# + F.log_softmax(
# @ softmax-overflow
# - F.softmax(scores, dim=-1)
# + scores.exp() / scores.exp().sum(-1, keepdim=True)
# @ softmax-max-per-column
# - F.softmax(scores, dim=-1)
# + (scores - scores.max(dim=-2, keepdim=True).values).exp()
# +     weights = weights / weights.sum(-1, keepdim=True)
# @ softmax-global-max
# - F.softmax(scores, dim=-1)
# + torch.exp(scores - scores.max())
# +     weights = weights / weights.sum(-1, keepdim=True)
# @ softmax-plus-one
# - F.softmax(scores, dim=-1)
# + torch.exp(scores)
# +     weights = weights / (1 + weights.sum(-1, keepdim=True))
# @ softmax-base-two
# - F.softmax(scores, dim=-1)
# + torch.exp2(scores - scores.amax(-1, keepdim=True))
# +     weights = weights / weights.sum(-1, keepdim=True)
# @ weights-rounded
# - F.softmax(scores, dim=-1)
# + torch.round(F.softmax(scores, dim=-1), decimals=2)
# @ mask-after-softmax
# -         scores = scores.masked_fill(~mask, float("-inf"))
# +         pass
# - F.softmax(scores, dim=-1)
# + F.softmax(scores, dim=-1)
# +     if mask is not None:
# +         weights = weights.masked_fill(~mask, 0.0)
# @ mask-zero-before-softmax
# - scores.masked_fill(~mask, float("-inf"))
# + scores * mask
# @ mask-zero-before-softmax
# - float("-inf")
# + 1e-9
# @ mask-inverted
# - ~mask
# + mask
# @ mask-not-assigned
# - scores = scores.masked_fill
# + scores.masked_fill
# @ mask-added-raw
# - scores.masked_fill(~mask, float("-inf"))
# + scores + mask
# @ mask-sign mask-inverted
# - float("-inf")
# + float("inf")
# @ mask-sign
# - float("-inf")
# + 1e9
# @ mask-nan-zero-times-inf
# - scores.masked_fill(~mask, float("-inf"))
# + scores + (1 - mask.float()) * float("-inf")
# @ mask-too-small
# - float("-inf")
# + -100
# @ mask-too-small
# - scores.masked_fill(~mask, float("-inf"))
# + scores + (~mask) * -50.0
# @ mask-on-values
# - scores = scores.masked_fill(~mask, float("-inf"))
# + V = V.masked_fill(~mask.any(-2).unsqueeze(-1), 0.0)
# - True = may attend.
# + True = may attend. mask: (B, 1, T_k)
# @ keys-reshaped
# - K.transpose(-2, -1)
# + K.reshape(*K.shape[:-2], K.size(-1), K.size(-2))
# @ keys-not-transposed
# - K.transpose(-2, -1)
# + K
# @ weights-transposed
# - torch.matmul(weights, V)
# + torch.matmul(weights.transpose(-2, -1), V)
# @ qk-swapped
# - torch.matmul(Q, K.transpose(-2, -1))
# + torch.matmul(K, Q.transpose(-2, -1))
# @ value-is-key
# - weights, V)
# + weights, K)
# @ value-is-query
# - weights, V)
# + weights, Q)
# @ average-not-sum
# - torch.matmul(weights, V)
# + (weights.unsqueeze(-1) * V.unsqueeze(-3)).mean(dim=-2)
# @ cosine-scores
# - torch.matmul(Q, K.transpose(-2, -1))
# + torch.matmul(F.normalize(Q, dim=-1), F.normalize(K, dim=-1).transpose(-2, -1))
# @ residual-inside
# - return torch.matmul(weights, V)
# + return torch.matmul(weights, V) + Q
# @ dropout-in-eval
# - F.softmax(scores, dim=-1)
# + F.dropout(F.softmax(scores, dim=-1), 0.1)
# @ grad-detached
# - torch.matmul(weights, V)
# + torch.matmul(weights.detach(), V)
# @ grad-detached
# - F.softmax(scores, dim=-1)
# + F.softmax(scores.data, dim=-1)
# @ dtype-downcast
# -     d_k = Q.size(-1)
# +     Q, K, V = Q.float(), K.float(), V.float()
# +     d_k = Q.size(-1)
# @ mutates-input
# -     d_k = Q.size(-1)
# +     d_k = Q.size(-1)
# +     Q /= math.sqrt(d_k)
# -  / math.sqrt(d_k)
# +
# @ nan-gradient
# - scores.masked_fill(~mask, float("-inf"))
# + scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
# - F.softmax(scores, dim=-1)
# + torch.nan_to_num(F.softmax(scores, dim=-1))
# @ weights-are-scores
# - return torch.matmul(weights, V)
# + return torch.matmul(weights, V), scores
# @ half-inside
# - torch.matmul(Q, K.transpose(-2, -1))
# + torch.matmul(Q.half(), K.half().transpose(-2, -1)).to(V.dtype)
# @ scale-missing softmax-dim-query
# -  / math.sqrt(d_k)
# +
# - dim=-1
# + dim=-2
# @ value-is-key scale-dk-not-sqrt
# - weights, V)
# + weights, K)
# - math.sqrt(d_k)
# + d_k
# @ mask-after-softmax scale-missing
# -  / math.sqrt(d_k)
# +
# -         scores = scores.masked_fill(~mask, float("-inf"))
# +         pass
# - F.softmax(scores, dim=-1)
# + F.softmax(scores, dim=-1)
# +     if mask is not None:
# +         weights = weights.masked_fill(~mask, 0.0)
# @ right
# - float("-inf")
# + -1e9
# @ right
# - float("-inf")
# + torch.finfo(scores.dtype).min
# @ right
# - return torch.matmul(weights, V)
# + return torch.matmul(weights, V), weights
# @ right
# - return torch.matmul(weights, V)
# + return weights, torch.matmul(weights, V)
# @ right
# - F.softmax(scores, dim=-1)
# + F.log_softmax(scores, dim=-1).exp()
# @ right
# - F.softmax(scores, dim=-1)
# + torch.exp(scores - scores.amax(-1, keepdim=True))
# +     weights = weights / weights.sum(-1, keepdim=True)
# @ right
# - F.softmax(scores, dim=-1)
# + torch.exp2((scores - scores.amax(-1, keepdim=True)) * 1.4426950408889634)
# +     weights = weights / weights.sum(-1, keepdim=True)
# @ right
# -         scores = scores.masked_fill(~mask, float("-inf"))
# +         pass
# - F.softmax(scores, dim=-1)
# + F.softmax(scores, dim=-1)
# +     if mask is not None:
# +         weights = weights * mask
# +         weights = weights / weights.sum(-1, keepdim=True)
# @ right
# - torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_k)
# + torch.einsum("...qd,...kd->...qk", Q * d_k**-0.25, K * d_k**-0.25)
# @ right
# - torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_k)
# + torch.matmul(Q, (K - K.mean(-2, keepdim=True)).transpose(-2, -1)) / math.sqrt(d_k)
# @ right
# - scores.masked_fill(~mask, float("-inf"))
# + scores * mask + (1 - mask.int()) * -1e9
# @ right
# - ~mask
# + mask == 0
# @ right
# - ~mask
# + mask
# - True = may attend
# + True = hidden
# @ right
# - ~mask
# + mask
# -  True = may attend.
# +
# @ right
# - scores.masked_fill(~mask, float("-inf"))
# + scores + mask
# - The mask is boolean, True = may attend.
# + The mask is added to the scores: 0 or -inf.
# @ right
# -     weights = F.softmax(scores, dim=-1)
# -     return torch.matmul(weights, V)
# +     return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
# @ right
# - F.softmax(scores, dim=-1)
# + F.softmax(scores.float(), dim=-1).to(Q.dtype)
