"""Recipes: the tables of a TOML file as checked, frozen dataclasses."""
