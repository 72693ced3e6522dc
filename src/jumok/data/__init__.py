"""From files to batches: readers, known corpora, token caches, packing and loading."""
