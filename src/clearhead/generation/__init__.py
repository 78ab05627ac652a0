"""A trained model writes: greedy, sampled or by beam search, always on the model's cache."""
