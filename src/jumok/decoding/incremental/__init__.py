"""Incremental decoders: next-token logits of a model, with its key-value cache."""
