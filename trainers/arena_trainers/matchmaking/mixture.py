"""A mixture of opponents: itself, past selves, bots, models and endpoints, by weights.

The default, 80 % self-play and 20 % past selves, is that of "Dota 2 with Large Scale Deep
Reinforcement Learning" (https://arxiv.org/abs/1912.06680), section 3.4. Departure: past selves
are uniform unless `options` or another matchmaker say otherwise.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_envs.game import AnyGame
from arena_trainers.curricula.protocol import check_game_weights
from arena_trainers.matchmaking.by_name import make_matchmaker, matchmakers
from arena_trainers.matchmaking.protocol import (
    SELF,
    BaseMatchmaker,
    EpisodeReturns,
    Match,
    Matchmaker,
    Seats,
    Start,
    against,
)

DEFAULT = {SELF: 0.8, "past_selves": 0.2}


class Mixture(BaseMatchmaker):
    """Each start against one of several opponents, drawn by weight.

    Args:
        weights: by opponent: `"self"` for self-play, in which every seat learns, another
            matchmaker such as `"past_selves"`, or a policy string such as `"random"`.
        options: options of the matchmakers among them, by name.

    Raises:
        ValueError: a weight is negative, no weight is above 0, the mixture is a part of
            itself, or options are given for what is no part of it.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] = DEFAULT,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        check_game_weights("weights of opponents", weights, "self")
        if "mixture" in weights:
            raise ValueError(
                "matchmaker 'mixture' names itself in its weights; give the weights of "
                "its parts in one mapping"
            )
        part_names = [name for name in weights if name in matchmakers.names()]
        part_options = dict(options or {})
        for name in part_options:
            if name not in part_names:
                raise ValueError(
                    f"want options of matchmakers among the weights {list(weights)}, "
                    f"got options of {name!r}; leave them out, or give it a weight"
                )
        self.parts: dict[str, Matchmaker] = {
            name: make_matchmaker({name: part_options.get(name)}) for name in part_names
        }
        self.opponents = list(weights)
        total = math.fsum(weights.values())
        self.chances = [weight / total for weight in weights.values()]
        policies = [name for name in weights if name != SELF and name not in self.parts]
        for part in self.parts.values():
            policies += part.policies
        self.policies = tuple(policies)
        self.max_live = sum(part.max_live for part in self.parts.values())

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        for part in self.parts.values():
            part.prepare(games)

    def snapshots(self, step: int) -> list[int]:
        steps = [part.snapshots(step) for part in self.parts.values()]
        return sorted(set().union(*steps))

    def matches(self, step: int) -> list[Match]:
        matches = [
            match for part in self.parts.values() for match in part.matches(step)
        ]
        return list(dict.fromkeys(matches))

    def assign(
        self, starts: Sequence[Start], step: int, rng: np.random.Generator
    ) -> list[Seats]:
        choices = rng.choice(len(self.opponents), size=len(starts), p=self.chances)
        assignments: dict[int, Seats] = {}
        for number, name in enumerate(self.opponents):
            places = np.flatnonzero(choices == number).tolist()
            own_starts = [starts[place] for place in places]
            if name in self.parts:
                seats = self.parts[name].assign(own_starts, step, rng)
            elif name == SELF:
                seats = [(SELF,) * start.num_seats for start in own_starts]
            else:
                seats = [against(name, start, rng) for start in own_starts]
            for place, start_seats in zip(places, seats, strict=True):
                assignments[place] = start_seats
        return [assignments[place] for place in range(len(starts))]

    def update(self, results: Sequence[EpisodeReturns], step: int) -> None:
        """Hands all results to every matchmaker of the mixture."""
        for part in self.parts.values():
            part.update(results, step)

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
