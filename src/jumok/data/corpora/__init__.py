"""Known corpora: sources, licences, checksums and splits."""
