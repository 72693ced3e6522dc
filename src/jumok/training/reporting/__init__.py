"""Reporting."""
