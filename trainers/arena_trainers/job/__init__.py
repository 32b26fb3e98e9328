"""The run of `arena train`: settings, start, run folder, results."""
