"""Serving: the plain model, transformed so that it reads fast and answers the same."""

from jumok.serving.optimize import optimized

__all__ = ["optimized"]
