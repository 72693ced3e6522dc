"""Benchmarks of `jumok serve`: speed next to peers, and reliability."""
