"""Pipeline."""
