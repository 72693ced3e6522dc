"""Hf trace."""
