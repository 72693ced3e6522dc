"""What the training jobs of several tasks share."""
