import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(query, key, value):
    d = query.shape[-1]
    scores = query @ key.T / np.sqrt(d)
    weights = softmax(scores)
    return weights @ value


# @ scale-missing
# -  / np.sqrt(d)
# @ scale-dk-not-sqrt
# - np.sqrt(d)
# + d
# @ scale-seq-len
# - query.shape[-1]
# + key.shape[0]
# @ scale-seq-len
# - query.shape[-1]
# + len(query)
# @ scale-hardcoded
# - np.sqrt(d)
# + 8
# @ scale-int-sqrt
# - np.sqrt(d)
# + int(np.sqrt(d))
# @ scale-int-sqrt
# - / np.sqrt(d)
# + / round(d ** 0.5)
# @ floor-division
# - / np.sqrt(d)
# + // np.sqrt(d)
# @ softmax-dim-query
# - np.max(x, axis=-1, keepdims=True))
# + np.max(x, axis=0, keepdims=True))
# - np.sum(e, axis=-1, keepdims=True)
# + np.sum(e, axis=0, keepdims=True)
# @ softmax-global
# - np.sum(e, axis=-1, keepdims=True)
# + np.sum(e)
# - np.max(x, axis=-1, keepdims=True)
# + np.max(x)
# @ softmax-keepdims
# - np.sum(e, axis=-1, keepdims=True)
# + np.sum(e, axis=-1)
# @ softmax-max-per-column
# - np.max(x, axis=-1, keepdims=True)
# + np.max(x, axis=0)
# @ softmax-overflow
# - x - np.max(x, axis=-1, keepdims=True)
# + x
# @ softmax-global-max
# - np.max(x, axis=-1, keepdims=True)
# + x.max()
# @ softmax-plus-one
# - e / np.sum(e, axis=-1, keepdims=True)
# + e / (1 + np.sum(e, axis=-1, keepdims=True))
# - x - np.max(x, axis=-1, keepdims=True)
# + x
# @ softmax-unnormalised
# - e / np.sum(e, axis=-1, keepdims=True)
# + e
# @ softmax-linear-norm
# - softmax(scores)
# + scores / scores.sum(axis=-1, keepdims=True)
# @ softmax-twice
# - weights @ value
# + softmax(weights) @ value
# @ softmax-base-two
# - np.exp(
# + np.exp2(
# @ weights-rounded
# - weights = softmax(scores)
# + weights = np.round(softmax(scores), 3)
# @ keys-reshaped
# - key.T
# + key.reshape(key.shape[1], key.shape[0])
# @ keys-not-transposed
# - key.T
# + key
# @ weights-transposed
# - weights @ value
# + weights.T @ value
# @ qk-swapped
# - query @ key.T
# + key @ query.T
# @ value-is-key
# - weights @ value
# + weights @ key
# @ value-is-query
# - weights @ value
# + weights @ query
# @ attend-over-features
# - query @ key.T
# + query.T @ key
# - weights @ value
# + value @ weights.T
# @ elementwise-product
# - query @ key.T
# + query * key
# - weights @ value
# + weights * value
# @ cosine-scores
# -     d = query.shape[-1]
# +     d = query.shape[-1]
# +     query = query / np.linalg.norm(query, axis=-1, keepdims=True)
# +     key = key / np.linalg.norm(key, axis=-1, keepdims=True)
# @ residual-inside
# - weights @ value
# + query + weights @ value
# @ average-not-sum
# - weights @ value
# + weights @ value / len(key)
# @ dtype-downcast
# -     d = query.shape[-1]
# +     query, key, value = (a.astype(np.float32) for a in (query, key, value))
# +     d = query.shape[-1]
# @ mutates-input
# -     d = query.shape[-1]
# +     d = query.shape[-1]
# +     query *= d**-0.5
# -  / np.sqrt(d)
# +
# @ weights-are-scores
# - return weights @ value
# + return weights @ value, scores
# @ half-inside
# - query @ key.T
# + (query.astype(np.float16) @ key.T.astype(np.float16)).astype(float)
# @ scale-fourth-root-once
# - np.sqrt(d)
# + d ** 0.25
# @ softmax-sigmoid
# - softmax(scores)
# + 1 / (1 + np.exp(-scores))
# @ softmax-missing
# - softmax(scores)
# + scores
# @ keys-wrong-transpose
# -     d = query.shape[-1]
# +     # query: (batch, time, features), key and value alike
# +     d = query.shape[-1]
# @ right
# - return weights @ value
# + return weights @ value, weights
# @ right
# - key.T
# + np.swapaxes(key, -1, -2)
# @ right
# - query @ key.T
# + np.einsum("id,jd->ij", query, key)
# @ right
# - weights @ value
# + (value.T @ weights.T).T
