"""Constrained decoding: automata over bytes and tokens that restrict what is generated."""
