"""Callbacks of a run: scores, files, warnings, progress."""
