"""Looking at a model while it runs. The model knows nothing of these tools."""
