"""Traces of models of the transformers library."""
