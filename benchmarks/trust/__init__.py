"""Proofs that nothing is lost: each is a command, `python -m benchmarks.trust.NAME`."""
