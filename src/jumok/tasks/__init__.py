"""Whole jobs: from a recipe to a run, from a run to answers."""
