"""Training jobs of the six tasks: batches in epochs, a loss and a development score."""
