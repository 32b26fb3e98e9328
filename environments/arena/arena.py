"""The environment `arena` of verifiers: games of arena-envs, any seats, any opponents."""

from arena_wrappers.adapters.verifiers import GameEnv, GameHarness, GameTaskset

__all__ = ["GameEnv", "GameHarness", "GameTaskset"]
