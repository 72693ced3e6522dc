"""Inference: copies of models whose encoders run faster on the CPU with the same outputs."""

from jumok.inference.optimization import optimize

__all__ = ["optimize"]
