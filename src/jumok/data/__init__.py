"""Data: known corpora, files, splits, token caches, packing and loading."""
