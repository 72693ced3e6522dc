"""Corpora without a download address, made again from pinned commits of public repositories."""
