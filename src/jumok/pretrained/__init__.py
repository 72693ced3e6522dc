"""Other people's checkpoints: read into modules of our own, and written back as theirs."""
