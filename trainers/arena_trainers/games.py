"""The games of a trainer: how to make them, who plays, and how often they start."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from datasets import Dataset

from arena_envs.registration import make, make_game
from arena_trainers.config import TurnGRPOConfig
from arena_wrappers import Episode, PromptWrapper
from arena_wrappers.play import EnvFn


class GamePlan:
    """One of the trainer's games: how to make it, who plays, and who learns.

    Args:
        spec: an id, or a dict of id, params, weight and opponents.
        args: the trainer's settings.

    Attributes:
        name: the id, with the parameters that were given.
        seats: who plays each seat.
        learners: which seats learn.
        env_fn: makes an environment of the game.

    Raises:
        ValueError: an unknown key, game, parameter or policy, or no seat that learns.
    """

    def __init__(self, spec: str | Mapping[str, Any], args: TurnGRPOConfig) -> None:
        given: dict[str, Any]
        given = {"id": spec} if isinstance(spec, str) else dict(spec)
        known = {"id", "params", "weight", "opponents"}
        if not known >= given.keys() or "id" not in given:
            raise ValueError(
                f"want a game as id or dict of {sorted(known)}, got {spec!r}"
            )
        self.id: str = given["id"]
        self.params: dict[str, Any] = given.get("params", {})
        values = ", ".join(f"{k}={v}" for k, v in sorted(self.params.items()))
        self.name = f"{self.id}({values})" if values else self.id
        self.weight = float(given.get("weight", 1.0))
        self.game = make_game(self.id, **self.params)
        num_players = self.game.num_players
        seats = given.get("opponents", args.opponents)
        self.seats = [seats] * num_players if isinstance(seats, str) else list(seats)
        if len(self.seats) != num_players:
            raise ValueError(
                f"{self.id} has {num_players} seats, opponents names {len(self.seats)}"
            )
        self.learners = [seat == "self" for seat in self.seats]
        if not any(self.learners):
            raise ValueError(f"no seat of {self.id} is 'self', so nobody learns")
        env = make(self.id, **self.params)
        # one function for all episodes, so that they share what they remember
        self.env_fn: EnvFn = PromptWrapper(env, **args.prompt_options).clone


def episode_starts(args: TurnGRPOConfig, weights: Sequence[float]) -> Dataset:
    """The training set: starts of episodes, games drawn by weight, seeds by `args.seed`."""
    num_starts = args.num_starts
    if num_starts is None:
        # TRL fills both in
        per_step = (args.generation_batch_size or 1) // (args.num_generations or 1)
        num_starts = args.max_steps * per_step if args.max_steps > 0 else 1000
    rng = np.random.default_rng(args.seed)
    chances = np.asarray(weights, float) / np.sum(weights)
    games = rng.choice(len(weights), size=num_starts, p=chances)
    seeds = rng.integers(2**62, size=num_starts)
    labels = [f"{game}:{seed}" for game, seed in zip(games, seeds, strict=True)]
    return Dataset.from_dict({"prompt": labels, "game": games, "seed": seeds})


def tally(
    episodes: Sequence[Episode], games: Sequence[int], plans: Sequence[GamePlan]
) -> tuple[dict[tuple[int, int], list[float]], Counter[str]]:
    """This process's true returns by (game, seat), and its counts."""
    returns: dict[tuple[int, int], list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for episode, game in zip(episodes, games, strict=True):
        for seat, value in enumerate(episode.returns):
            returns[game, seat].append(value)
        counts.update(episodes=1, turns=len(episode.turns))
        for turn in episode.turns:
            if plans[game].learners[turn.seat]:
                counts.update(["replies", turn.invalid or "valid"])
    return dict(returns), counts
