"""Runs: training, evaluating, loading, importing and averaging."""
