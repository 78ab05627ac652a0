"""Training: what a step is asked to do better (loss), how fast (schedule), the loop, and how it is saved."""
