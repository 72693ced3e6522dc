"""Looking at a model while it works: traces, muted heads, explanations."""
