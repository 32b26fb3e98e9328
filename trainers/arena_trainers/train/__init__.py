"""`TurnGRPOTrainer`: settings, rollouts, credit columns, training rows, critics."""
