"""Training jobs of the eight tasks: batches in epochs, a loss and a development score."""
