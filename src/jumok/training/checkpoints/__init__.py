"""Checkpoints: written atomically and in the background, verified on load."""
