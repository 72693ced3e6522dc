"""Everyday sentences of jumok's own: a list of short pairs, and a grammar that generates others."""
