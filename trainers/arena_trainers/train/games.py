"""The games of a run: a `GamePlan` of each, with its environments and who plays its seats.

A matchmaker assigns the seats of games without `opponents` of their own.

This module imports neither TRL nor torch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena_envs.registration import make
from arena_trainers.matchmaking.by_name import assigns_seats, names_matchmaker
from arena_trainers.matchmaking.protocol import SELF
from arena_trainers.train.game_entries import check_opponents, checked_entry
from arena_trainers.train.settings import SelfPlay
from arena_wrappers import PromptWrapper
from arena_wrappers.play import EnvFn


class GamePlan:
    """A game of the trainer: its environments, and who plays each seat.

    Args:
        spec: an id, or a dict of id, params, max_turns, weight and opponents.
        args: the trainer's settings.

    Attributes:
        id: the id.
        params: the parameters that were given.
        max_turns: after how many turns episodes are truncated, if that was given.
        weight: how often the game starts, relative to the others.
        name: the id, with the parameters and the limit of turns that were given.
        task: the name, with `opponent` if there is one.
        game: the rules.
        has_own: whether the game names opponents of its own.
        opponent: the policy of all seats but one, which is drawn for each start and learns; None
            if the game has no single opponent of its own.
        seats: who plays each seat; None if they are assigned for each start.
        learners: which seats learn, in some starts at least.
        lineups: who plays each seat, if the learner faces the same policies in all starts; one
            line-up, or one for each seat where the seat that learns is drawn. Else none.
        wrapper: the environment with its prompts.
        env_fn: makes an environment of the game; all of them share `game`.

    Raises:
        ValueError: a key, the game, a parameter or a policy is unknown, or no seat learns.
    """

    def __init__(self, spec: str | Mapping[str, Any], args: SelfPlay) -> None:
        entry = checked_entry(spec)
        self.id: str = entry["id"]
        self.params: dict[str, Any] = entry.get("params", {})
        self.max_turns: int | None = entry.get("max_turns")
        self.weight: float = entry.get("weight", 1.0)
        limit = {} if self.max_turns is None else {"max_turns": self.max_turns}
        parameters = sorted({**self.params, **limit}.items())
        description = ", ".join(f"{name}={value}" for name, value in parameters)
        self.name = f"{self.id}({description})" if description else self.id
        env = make(self.id, max_turns=self.max_turns, **self.params)
        self.game = env.game
        num_players = self.game.num_players
        self.seats: list[str] | None = None
        self.has_own = "opponents" in entry
        opponents = entry.get("opponents", args.opponents)
        self.opponent = _single_opponent(opponents) if self.has_own else None
        self.task = (
            f"{self.name} against {self.opponent}" if self.opponent else self.name
        )
        if self.opponent is not None:
            _check_duel(self.opponent, self.id, num_players)
        elif self.has_own or not assigns_seats(args.opponents):
            self.seats = _checked_seats(opponents, self.id, num_players)
        self.learners = [
            policy == SELF for policy in self.seats or [SELF] * num_players
        ]
        self.lineups = _lineups(self.seats, opponents, num_players)
        # one function for all episodes, so that they share their caches
        self.wrapper = PromptWrapper(env, **args.prompt_options)
        self.env_fn: EnvFn = self.wrapper.clone
        self._prompt_options = args.prompt_options
        self._cut: dict[int, EnvFn] = {}

    @property
    def is_matched(self) -> bool:
        """Whether the run's matchmaker assigns the seats."""
        return self.seats is None and self.opponent is None

    def env_of(self, max_turns: int | None) -> EnvFn:
        """Makes environments that truncate episodes after `max_turns` or earlier."""
        if max_turns is None or (self.max_turns or math.inf) <= max_turns:
            return self.env_fn
        if max_turns not in self._cut:
            env = make(self.id, max_turns=max_turns, **self.params)
            self._cut[max_turns] = PromptWrapper(env, **self._prompt_options).clone
        return self._cut[max_turns]


def _single_opponent(opponents: Any) -> str | None:
    """The policy if a game's `opponents` name a single one, for all seats but the learner's; else None."""
    is_policy = isinstance(opponents, str) and opponents != SELF
    return opponents if is_policy and not names_matchmaker(opponents) else None


def _check_duel(opponent: str, id: str, num_players: int) -> None:
    if num_players == 1:
        raise ValueError(
            f"want a game of several seats for the opponent {opponent!r}, got {id}; leave the opponent out"
        )


def _lineups(
    seats: list[str] | None, opponents: Any, num_players: int
) -> list[list[str]]:
    """The fixed line-ups that a learner faces, see `GamePlan`."""
    if seats is not None:
        return [] if {*seats} == {SELF} else [seats]
    if names_matchmaker(opponents):
        return []
    lineups = []
    for learner_seat in range(num_players):
        lineup = [opponents] * num_players
        lineup[learner_seat] = SELF
        lineups.append(lineup)
    return lineups


def numbered_names(plans: Sequence[GamePlan]) -> list[str]:
    """The task of each game; a repeated one gets a number: `kuhn_poker`, `kuhn_poker #2`."""
    names: list[str] = []
    for number, plan in enumerate(plans):
        before = [earlier.task for earlier in plans[:number]].count(plan.task)
        names.append(f"{plan.task} #{before + 1}" if before else plan.task)
    return names


def different_games(plans: Sequence[GamePlan]) -> list[GamePlan]:
    """One plan of each name: the first one listed, but the last one of a ladder."""
    plan_by_name: dict[str, GamePlan] = {}
    for plan in plans:
        first = plan_by_name.setdefault(plan.name, plan)
        if first.opponent is not None and plan.opponent is not None:
            plan_by_name[plan.name] = plan
    return list(plan_by_name.values())


def check_used(args: SelfPlay, plans: Sequence[GamePlan]) -> None:
    """Raises ValueError if `opponents` is given and all games have opponents of their own."""
    if args.opponents != "self" and all(plan.has_own for plan in plans):
        ids = ",".join(dict.fromkeys(plan.id for plan in plans))
        raise ValueError(
            "want a game without opponents of its own for opponents "
            f"{args.opponents!r}, got none; leave opponents out, or give the games "
            f"anew: --games {ids}"
        )


def _checked_seats(opponents: Any, id: str, num_players: int) -> list[str]:
    """The policy string of each seat.

    Raises:
        ValueError: a wrong number of seats, or no seat that learns.
    """
    check_opponents(opponents)
    if names_matchmaker(opponents):
        raise ValueError(
            f"want opponents of {id} as a policy string or a list, got {opponents!r}; give a "
            "matchmaker to the whole run, such as --opponents past_selves"
        )
    seats = [opponents] * num_players if isinstance(opponents, str) else list(opponents)
    if len(seats) != num_players:
        raise ValueError(
            f"{id} has {num_players} seats, opponents names {len(seats)}; name one for "
            "each seat, or one string for all"
        )
    if "self" not in seats:
        raise ValueError(
            f"want a seat of {id} that learns, got opponents {opponents!r}; write 'self' for "
            "it in a list, such as [self, random], or give one policy to the whole "
            "run, such as --opponents random"
        )
    return seats
