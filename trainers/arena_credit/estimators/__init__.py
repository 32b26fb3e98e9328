"""The estimators, one module for each family."""
