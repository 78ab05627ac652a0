"""Training: batches from files (data), what a step is asked to do better (loss), the loop, and the run around it."""
