"""Hugging Face checkpoints: load them into jumok modules, and save jumok models as them."""
