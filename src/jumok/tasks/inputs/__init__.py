"""Inputs of the tasks: texts and tables as batches of ids."""
