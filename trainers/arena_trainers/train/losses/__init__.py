"""What the trainer adds to TRL's loss: terms, their teachers, and means over trained rows."""
