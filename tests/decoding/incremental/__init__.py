"""Tests of incremental decoders."""
