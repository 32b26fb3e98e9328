"""Checks before a run: preflight without torch, and the plan of `--dry-run`."""
