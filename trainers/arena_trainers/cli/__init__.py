"""The `arena` command: one module per command or group of commands."""
