"""The `arena` command: one module for each command."""
