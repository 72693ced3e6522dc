"""Training: the loop, the optimizer, checkpoints, several processes, and reports."""
