"""Inference: copies of models whose encoders run faster on the CPU with the same outputs."""

from jumok.inference.optimization import has_invariant_states, is_batch_invariant, optimize

__all__ = ["has_invariant_states", "is_batch_invariant", "optimize"]
