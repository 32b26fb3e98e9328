"""`TurnGRPOTrainer`: settings, rollouts, credit columns, training rows, critics."""

CREDIT_STATE = "credit_state.json"  # the last file of a checkpoint
