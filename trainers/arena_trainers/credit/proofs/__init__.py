"""What estimators do to the exact policy gradient: games, claims, reports."""
