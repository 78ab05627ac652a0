import numpy as np


def attention(Q, K, V):
    """Written out with loops, one query at a time."""
    n, m = len(Q), len(K)
    d = Q.shape[1]
    out = np.zeros((n, V.shape[1]))
    for i in range(n):
        scores = np.zeros(m)
        for j in range(m):
            scores[j] = np.dot(Q[i], K[j]) / np.sqrt(d)
        top = scores.max()
        weights = np.exp(scores - top)
        weights = weights / weights.sum()
        for j in range(m):
            out[i] += weights[j] * V[j]
    return out


# @ loop-index-typo
# - np.dot(Q[i], K[j])
# + np.dot(Q[i], K[i])
# @ loop-range-from-queries
# - n, m = len(Q), len(K)
# + n, m = len(Q), len(Q)
# @ output-like-query
# - np.zeros((n, V.shape[1]))
# + np.zeros_like(Q)
# @ scale-missing
# -  / np.sqrt(d)
# @ scale-seq-len
# - np.sqrt(d)
# + np.sqrt(n)
# @ value-is-key
# - weights[j] * V[j]
# + weights[j] * K[j]
# @ softmax-overflow
# -  - top
# @ softmax-unnormalised
# -         weights = weights / weights.sum()
# @ average-not-sum
# -     return out
# +     return out / m
# @ weights-transposed
# - out[i] += weights[j] * V[j]
# + out[j] += weights[j] * V[i]
# @ softmax-plus-one
# - weights = weights / weights.sum()
# + weights = weights / (1 + weights.sum())
# @ right
# - np.dot(Q[i], K[j])
# + sum(a * b for a, b in zip(Q[i], K[j]))
# @ right
# -     for i in range(n):
# +     for i in range(len(Q)):
