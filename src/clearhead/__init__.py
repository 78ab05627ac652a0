"""clearhead: the Transformer you can see through."""
