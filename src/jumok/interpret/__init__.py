"""Interpretability: traces of attention and generation, muted heads, leave-one-out scores."""
