"""Transformers you can read, train and see."""
