"""Effects of estimators on the exact policy gradient: games, claims, findings."""
