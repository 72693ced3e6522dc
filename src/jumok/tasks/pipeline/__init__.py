"""The pipeline: a trained model as a function from text to outputs."""
