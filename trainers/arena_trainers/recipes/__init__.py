"""Recipes as YAML, and the parts of the reward that they name."""
