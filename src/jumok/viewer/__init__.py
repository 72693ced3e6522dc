"""Traces and runs turned into pictures and pages."""
