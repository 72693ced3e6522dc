"""Tools that made the shipped models: distillation, corpora, initial weights, replaced tokens."""
