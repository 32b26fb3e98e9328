"""The games: one module of pure rules each; `arena_envs.make` creates them by id."""
