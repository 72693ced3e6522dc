"""The six tasks: recipes, inputs, pipelines, training jobs and runs."""
