"""Play for training: the player, what is trained of it, play beside training, reward columns."""
