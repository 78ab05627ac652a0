"""Drawing what was computed. Handed results and models, never loads them."""
