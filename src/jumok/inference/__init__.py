"""Serving: the plain model, transformed so that it reads fast and answers the same."""

from jumok.inference.optimization import optimize

__all__ = ["optimize"]
