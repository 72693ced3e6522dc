"""The eight tasks: recipes, inputs, pipelines, training jobs and runs."""
