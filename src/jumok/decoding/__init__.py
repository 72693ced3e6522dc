"""Writing: from a model's next-token logits to whole sequences."""

from jumok.decoding.greedy import Written, greedy

__all__ = ["Written", "greedy"]
