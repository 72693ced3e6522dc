"""Initial weights and models of pretraining."""
