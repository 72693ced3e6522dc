"""Train a model by the labels, states or vectors of finished models."""
