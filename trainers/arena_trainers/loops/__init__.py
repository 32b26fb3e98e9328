"""Loops of `arena train`: rounds of play, selection, training and evaluation."""
