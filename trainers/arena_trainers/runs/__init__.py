"""A run of `arena train`: self-play, rows, or rounds, as stages over one run folder."""
