"""Seats of a game and the policies in the other seats: their checks, and the bots that decide for them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from arena_envs.bots import Bot, make_bot
from arena_envs.checks import check_known, short
from arena_envs.env import GameEnv
from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers.play.episodes import measures_of
from arena_wrappers.policies import (
    BotPolicy,
    NoisyPolicy,
    Policy,
    RandomPolicy,
    ScoringBotPolicy,
    ScoringNoisyPolicy,
    as_policy,
    make_policy,
)

OPTIONS = ("chance", "sample")  # of `reset`


def checked_seat(seat: int | str, num_players: int) -> int:
    """The seat as an `int`; raises ValueError unless the game has it."""
    is_integer = isinstance(seat, int | np.integer) and not isinstance(seat, bool)
    if not is_integer or seat not in range(num_players):
        raise ValueError(
            f"want seat from 0 to {num_players - 1}, got {seat!r:.80}; 'random' draws "
            "one for each episode"
        )
    return int(seat)


def checked_sample(options: Mapping[str, Any] | None, seed: int | None) -> int:
    """The number `sample` among the options of `reset`; 0 without one.

    Raises:
        ValueError: an option is unknown, or `sample` is no integer of at least 0 or comes
            without a seed.
    """
    if not isinstance(options, Mapping):
        return 0  # `GameEnv.reset` refuses what is no mapping
    for name in options:
        check_known(name, OPTIONS, f"unknown option {short(name)} of reset")
    if "sample" not in options:
        return 0
    sample = options["sample"]
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise ValueError(
            f"want options['sample'] as an integer of at least 0, got {short(sample)}"
        )
    if seed is None:
        raise ValueError(
            "options['sample'] selects one of the episodes of a seed: pass seed, too"
        )
    return sample


Opponents = str | Policy | Sequence[str | Policy]


def checked_opponents(
    opponents: Opponents, num: int, policy_of_spec: dict[str, Policy]
) -> list[Policy]:
    """The policies of the other seats.

    Args:
        opponents: a policy or a string for `make_policy`, or one per other seat.
        num: number of other seats.
        policy_of_spec: policies by string, to which new ones are added.

    Raises:
        ValueError: a string names no policy here, or the number does not fit.
        TypeError: an opponent is neither a string nor a policy.
    """
    single = isinstance(opponents, str) or not isinstance(opponents, Sequence)
    opponent_list: Any = [opponents] * num if single else opponents
    if len(opponent_list) != num:
        raise ValueError(
            f"want {num} opponents, one per other seat, got {len(opponent_list)}"
        )
    for opponent in opponent_list:
        if isinstance(opponent, str) and opponent == "self":
            raise ValueError(
                "opponent 'self' is the model that trains, which an environment of one "
                "seat does not know; give a policy such as 'random', or let your "
                "trainer play every seat of arena_envs.make(...)"
            )
        if isinstance(opponent, str) and opponent not in policy_of_spec:
            policy_of_spec[opponent] = make_policy(opponent)
    return [
        policy_of_spec[opponent] if isinstance(opponent, str) else as_policy(opponent)
        for opponent in opponent_list
    ]


@dataclass(frozen=True)
class NoisyBot:
    """Plays a random legal action with a given probability, else the action of a bot."""

    inner: Bot
    probability: float

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        if rng.random() < self.probability:
            return rng.choice(game.legal_actions(state))
        return self.inner(game, state, rng)


def bot_of(policy: Policy) -> Bot | None:
    """The bot that decides for a policy; None if the policy reads text.

    A class that inherits from one of ours may reply differently, so it counts as a reader.
    """
    if type(policy) is RandomPolicy:
        return make_bot("random")
    if isinstance(policy, BotPolicy) and type(policy) in (BotPolicy, ScoringBotPolicy):
        return policy.bot
    if isinstance(policy, NoisyPolicy) and type(policy) in (
        NoisyPolicy,
        ScoringNoisyPolicy,
    ):
        inner = bot_of(policy.inner)
        return None if inner is None else NoisyBot(inner, policy.probability)
    return None


def outcome_of(env: GameEnv) -> dict[str, Any]:
    """What `info["outcome"]` holds at the end of an episode."""
    return {
        "returns": [float(seat_return) for seat_return in env.returns],
        "measures": measures_of(env.game, env.game_state),
        "forfeited_by": env.forfeited_by,
    }


SeatChoice = int | Literal["random"]
