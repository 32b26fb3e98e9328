"""Trainers that learn from rows of recorded episodes, by name; plug-ins of `arena.trainers`.

A plug-in names a function that returns `arena_trainers.offline.protocol.RowTrainer`. Its collator
may use `arena_trainers.offline.batches`.
"""
