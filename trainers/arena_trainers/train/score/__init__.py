"""Rows through the model: tensors, packing, forward passes, the mismatch check, sharding, reference."""
