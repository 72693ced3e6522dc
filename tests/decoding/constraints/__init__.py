"""Tests of constrained decoding."""
