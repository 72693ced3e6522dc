"""Tests of traces of transformers models."""
