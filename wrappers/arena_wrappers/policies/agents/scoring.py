"""Scorers: rate replies from what the seat sees."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from arena_envs.bots.mcts import rollout
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyAction,
    AnyGame,
    AnyState,
    check_int,
)
from arena_envs.registry import Registry
from arena_envs.solvers import CFRPlus, PerfectInformation, Table, action_values
from arena_envs.solvers.enumeration import Memory
from arena_wrappers.policies.agents.protocol import JUDGE, Scorer, TurnView
from arena_wrappers.policies.protocol import turn_seed


def legal(view: TurnView, replies: Sequence[str]) -> list[float]:
    """1 for a reply that names a legal action, else 0."""
    return [float(view.action(text) is not None) for text in replies]


@dataclass(frozen=True)
class Rollouts:
    """Mean return of random play after a reply, from states that the seat thinks possible.

    Every reply is tried in the same states. A reply without a legal action has the game's
    least return.

    Args:
        num: number of states.
    """

    num: int = 16

    def __post_init__(self) -> None:
        check_int("num", self.num, 1, 9999)

    def __call__(self, view: TurnView, replies: Sequence[str]) -> list[float]:
        rngs = [random.Random(turn_seed(view.seed, i, 1, 0)) for i in range(self.num)]
        starts = [(view.draw(rng), rng.getrandbits(63)) for rng in rngs]
        scores, game = [], view.game
        for text in replies:
            action = view.action(text)
            if action is None:
                scores.append(game.min_return)
                continue
            ends = [
                self.end(
                    game, game.apply(state, action), random.Random(seed), view.seat
                )
                for state, seed in starts
            ]
            scores.append(sum(ends) / len(ends))
        return scores

    def end(
        self, game: AnyGame, state: AnyState, rng: random.Random, seat: int
    ) -> float:
        """The seat's return after random play from a state."""
        return rollout(game, state, rng)[seat]


MAX_SOLVED = 200_000  # states of a game, as for bots
_searches, _tables = Memory[PerfectInformation](2), Memory[Any](2)


@dataclass(frozen=True)
class SolverValues:
    """Mean return of the seat after a reply, if all play on as a solver does.

    The solver is an exact search if all is seen and one seat moves at a time, else CFR+ with 1 %
    of uniform play. The mean is over the states that the seat cannot tell apart, by the play of
    the others. A reply without a legal action has the game's least return.

    Args:
        sees_hidden: whether the value is that of the true state, with what the seat cannot see.
    """

    sees_hidden: bool = False

    def __call__(self, view: TurnView, replies: Sequence[str]) -> list[float]:
        actions, least = [view.action(text) for text in replies], view.game.min_return
        return [least if a is None else self._worth(view, a) for a in actions]

    def _worth(self, view: TurnView, action: AnyAction) -> float:
        game, seat, state = view.game, view.seat, view._request.state
        if game.num_actions is None:
            raise ValueError(
                f"want a game with a list of actions for the scorer solver, got {game!r}; give "
                "rollouts"
            )
        if game.information == "perfect" and not game.simultaneous:
            search = partial(PerfectInformation, game, MAX_SOLVED)
            solution = _searches.recall(game, search).solve(game.apply(state, action))
            return solution.returns[seat]
        table, rows = _tables.recall(game, partial(_solved, game))
        if self.sees_hidden:
            return _value(game, game.apply(state, action), table, seat)
        row = rows[seat, game.information_state(state, seat)]
        return float(row[game.legal_actions(state).index(action)])


def _solved(game: AnyGame) -> tuple[Table, Table]:
    """A policy that reaches every state, and the values of its actions."""
    solver = CFRPlus(game, MAX_SOLVED)
    solver.run(1000)
    mixed = {
        key: [0.99 * p + 0.01 / len(row) for p in row]
        for key, row in solver.average_policy().items()
    }
    return mixed, action_values(game, mixed, MAX_SOLVED)


def _value(game: AnyGame, state: AnyState, table: Table, seat: int) -> float:
    """The mean return of a seat if all play on by a table."""
    player = game.current_player(state)
    if player == TERMINAL:
        return game.returns(state)[seat]
    chances = game.chance_outcomes(state)
    if player != CHANCE:
        row = table[player, game.information_state(state, player)]
        chances = [*zip(game.legal_actions(state), row, strict=True)]
    return sum(p * _value(game, game.apply(state, a), table, seat) for a, p in chances)


scorers: Registry[Scorer | str] = Registry(
    "scorer",
    "arena.scorers",
    {
        "critic": "arena_trainers.train.critics:scorer",
        JUDGE: lambda: JUDGE,
        "legal": lambda: legal,
        "reward": "arena_trainers.lm.reward_model:scorer",
        "rollouts": Rollouts,
        "solver": SolverValues,
    },
)
