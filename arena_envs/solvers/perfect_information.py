"""Games of perfect information, solved from any state on."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    possible_outcomes,
)
from arena_envs.solvers.enumeration import MAX_STATES, too_large, too_many_states

TOLERANCE = 1e-9  # values that differ by less are equal; relative to values above 1
NUM_REPLIES = 2  # replies of the other seat that are taken to be random


@dataclass
class TieWeights:
    """Weights of best actions in a two-player zero-sum game of perfect information.

    Args:
        game: the rules.
        best: the best actions in a state.
        value: the minimax value of a state to seat 0.
    """

    game: AnyGame
    best: Callable[[Any], Sequence[Any]]
    value: Callable[[Any], float]
    _hopes: dict[tuple[Any, int, int], float] = field(default_factory=dict)

    def weights(self, state: AnyState, best: Sequence[Any]) -> dict[Any, float]:
        """Probabilities of the best actions, see `PerfectInformation.policy`."""
        value, game = self.value(state), self.game
        player = game.current_player(state)
        gains = [
            abs(self._hoped(game.apply(state, action), player, NUM_REPLIES) - value)
            for action in best
        ]
        total = sum(gain**2 for gain in gains)
        if total < TOLERANCE:
            return dict.fromkeys(best, 1 / len(best))
        return {a: gain**2 / total for a, gain in zip(best, gains, strict=True)}

    def forget(self) -> None:
        """Frees the memory of what was met."""
        self._hopes.clear()

    def _hoped(self, state: AnyState, player: int, num_replies: int) -> float:
        """The value if the next replies to this player are uniform, and all else is best."""
        key = (state, player, num_replies)
        if key not in self._hopes:
            self._hopes[key] = self._hope(state, player, num_replies)
        return self._hopes[key]

    def _hope(self, state: AnyState, player: int, num_replies: int) -> float:
        game = self.game
        mover = game.current_player(state)
        if mover == TERMINAL or num_replies == 0:
            return self.value(state)
        if mover == CHANCE:
            return sum(
                p * self._hoped(game.apply(state, a), player, num_replies)
                for a, p in possible_outcomes(game, state)
            )
        if mover == player:
            actions = self.best(state)
        else:
            actions, num_replies = game.legal_actions(state), num_replies - 1
        return fmean(
            self._hoped(game.apply(state, action), player, num_replies)
            for action in actions
        )


T = TypeVar("T")


class Minimax(NamedTuple):
    """The value of a state, and a best action.

    Attributes:
        returns: return of each seat when all play best from here on.
        action: the first best action of the seat to move; None at the end and at chance
            nodes.
    """

    returns: tuple[float, ...]
    action: Any


def minimax(
    game: AnyGame,
    state: AnyState = None,
    *,
    depth: int | None = None,
    max_states: int = MAX_STATES,
) -> Minimax:
    """The value of a state and the best action, in a game of perfect information.

    Two-player zero-sum games are searched by alpha-beta with a table of the states that
    were met (Knuth and Moore, *An Analysis of Alpha-Beta Pruning*, 1975), all others by
    backward induction, in which each seat maximises its own return and the first of equal
    actions is taken. Chance nodes are averaged.

    Args:
        game: the rules.
        state: where to start; by default the initial state.
        depth: number of actions, chance included, to look ahead; the returns so far are
            then taken as the value. None looks to the end.
        max_states: limit of the number of states that are remembered.

    Raises:
        ValueError: the game hides information, `depth` is no positive number, or more
            than `max_states` states were met.

    >>> from arena_envs import make_game
    >>> minimax(make_game("tic_tac_toe")).returns  # a draw
    (0.0, 0.0)
    """
    state = game.initial_state() if state is None else state
    return PerfectInformation(game, max_states).solve(state, depth)


class PerfectInformation:
    """`minimax` that remembers the states it met, for one game.

    Args:
        game: the rules.
        max_states: limit of the number of states that are remembered.
        draws: whether seats choose uniformly among equal actions instead of the first;
            without effect in two-player zero-sum games.

    Raises:
        ValueError: the game hides information.
    """

    def __init__(
        self, game: AnyGame, max_states: int = MAX_STATES, *, draws: bool = False
    ) -> None:
        if game.information != "perfect" or game.simultaneous:
            raise ValueError(
                f"want a game of perfect information, got {game!r}; use CFR, solve_zero_sum "
                'or the bot "ismcts"'
            )
        opposed = game.num_players == 2 and game.zero_sum
        self._search: _AlphaBeta | _BackwardInduction = (
            _AlphaBeta(game, max_states)
            if opposed
            else _BackwardInduction(game, max_states, draws)
        )

    def solve(self, state: AnyState, depth: int | None = None) -> Minimax:
        """The value of a state and the best action; see `minimax`.

        Raises:
            ValueError: `depth` is no positive number, or too many states were met.
        """
        return self._limited(self._search.solve, state, depth)

    def policy(self, state: AnyState, depth: int | None = None) -> dict[Any, float]:
        """Probabilities of the best actions of the seat to move; 0 for all others.

        Best actions have equal probabilities, except in two-player zero-sum games that are
        searched to their end. There p(a) ∝ (opponent's mean loss if its next two replies
        are uniform)²: all best actions have the same minimax value, and the weights favour
        those that punish errors.

        Raises:
            ValueError: `depth` is no positive number, or too many states were met.
        """
        return self._limited(self._search.policy, state, depth)

    def _limited(
        self, find: Callable[[Any, float], T], state: AnyState, depth: int | None
    ) -> T:
        if depth is not None and depth < 1:
            raise ValueError(f"want a depth of 1 or more, got {depth}")
        if len(self._search.met) > self._search.max_states // 2:
            self._search.forget()
        try:
            return find(state, math.inf if depth is None else depth)
        except RecursionError:
            size = f"up to {self._search.game.max_turns} turns in an episode"
            limit = "as many as sys.getrecursionlimit() has room for"
            raise too_large(self._search.game, size, limit) from None


class _AlphaBeta:
    """Values are those of seat 0."""

    def __init__(self, game: AnyGame, max_states: int) -> None:
        self.game = game
        self.max_states = max_states
        self.met: dict[tuple[Any, float], tuple[float, float]] = {}
        self.policies: dict[Any, dict[Any, float]] = {}
        self.ties = TieWeights(
            game,
            lambda state: self._best(state, math.inf),
            lambda state: self._value(state, -math.inf, math.inf, math.inf),
        )

    def forget(self) -> None:
        """Frees the memory of what was met, but for the policies, which are few."""
        self.met.clear()
        self.ties.forget()

    def solve(self, state: AnyState, horizon: float) -> Minimax:
        value, action = self._search(state, -math.inf, math.inf, horizon)
        return Minimax((value, 0.0 - value), action)

    def policy(self, state: AnyState, horizon: float) -> dict[Any, float]:
        if horizon < math.inf:
            return dict.fromkeys(best := self._best(state, horizon), 1 / len(best))
        if state not in self.policies:
            best = self._best(state, horizon)
            alone = {best[0]: 1.0} if len(best) == 1 else None
            self.policies[state] = alone or self.ties.weights(state, best)
        return self.policies[state]

    def _best(self, state: AnyState, horizon: float) -> list[Any]:
        value, _ = self._search(state, -math.inf, math.inf, horizon)
        return self._reaching(state, value, horizon)

    def _reaching(self, state: AnyState, value: float, horizon: float) -> list[Any]:
        """Actions of the seat to move that are worth this much to it, or more."""
        game = self.game
        first = game.current_player(state) == 0
        slack = TOLERANCE * max(1.0, abs(value))
        # whether an action is worth as much takes a window of no width
        bound = value - slack if first else value + slack
        beyond = math.nextafter(bound, -math.inf if first else math.inf)
        window = (beyond, bound) if first else (bound, beyond)
        actions = []
        for action in game.legal_actions(state):
            reached = self._value(game.apply(state, action), *window, horizon - 1)
            if reached >= bound if first else reached <= bound:
                actions.append(action)
        return actions

    def _value(
        self, state: AnyState, alpha: float, beta: float, horizon: float
    ) -> float:
        """The value, or a bound of it on the side where it leaves alpha to beta."""
        key = (state, horizon)
        low, high = self.met.get(key, (-math.inf, math.inf))
        if low >= beta or low == high:
            return low
        if high <= alpha:
            return high
        value, _ = self._search(state, max(alpha, low), min(beta, high), horizon)
        if value < beta:
            high = min(high, value)
        if value > alpha:
            low = max(low, value)
        self.met[key] = (low, high)
        if len(self.met) > self.max_states:
            raise too_many_states(self.game, self.max_states)
        return value

    def _search(
        self, state: AnyState, alpha: float, beta: float, horizon: float
    ) -> tuple[float, Any]:
        game = self.game
        player = game.current_player(state)
        if player == TERMINAL or horizon <= 0:
            return game.returns(state)[0], None
        if player == CHANCE:
            value = sum(
                p * self._value(game.apply(state, a), -math.inf, math.inf, horizon - 1)
                for a, p in possible_outcomes(game, state)
            )
            return value, None
        sign = 1 if player == 0 else -1
        best, choice = -math.inf, None
        low, high = (alpha, beta) if player == 0 else (-beta, -alpha)
        for action in game.legal_actions(state):
            child, floor = game.apply(state, action), max(best, low)
            window = (floor, high) if player == 0 else (-high, -floor)
            value = sign * self._value(child, *window, horizon - 1)
            if choice is None or value > best:
                best, choice = value, action
            if best >= high:
                break
        return sign * best, choice


class _BackwardInduction:
    def __init__(self, game: AnyGame, max_states: int, draws: bool) -> None:
        self.game = game
        self.max_states = max_states
        self.draws = draws
        self.met: dict[tuple[Any, float], tuple[float, ...]] = {}

    def forget(self) -> None:
        """Frees the memory of what was met."""
        self.met.clear()

    def solve(self, state: AnyState, horizon: float) -> Minimax:
        return self._search(state, horizon)

    def policy(self, state: AnyState, horizon: float) -> dict[Any, float]:
        best = [option.action for option in self._best(state, horizon)]
        return dict.fromkeys(best, 1 / len(best))

    def _returns(self, state: AnyState, horizon: float) -> tuple[float, ...]:
        key = (state, horizon)
        if key not in self.met:
            self.met[key] = self._search(state, horizon).returns
            if len(self.met) > self.max_states:
                raise too_many_states(self.game, self.max_states)
        return self.met[key]

    def _search(self, state: AnyState, horizon: float) -> Minimax:
        game = self.game
        player = game.current_player(state)
        if player == TERMINAL or horizon <= 0:
            return Minimax(tuple(game.returns(state)), None)
        if player == CHANCE:
            parts = [
                [
                    p * value
                    for value in self._returns(game.apply(state, a), horizon - 1)
                ]
                for a, p in possible_outcomes(game, state)
            ]
            return Minimax(tuple(map(sum, zip(*parts, strict=True))), None)
        best = self._best(state, horizon)
        if not self.draws:
            return best[0]
        returns = zip(*(option.returns for option in best), strict=True)
        return Minimax(tuple(map(fmean, returns)), best[0].action)

    def _best(self, state: AnyState, horizon: float) -> list[Minimax]:
        """The best options of the seat to move."""
        game = self.game
        player = game.current_player(state)
        options = [
            Minimax(self._returns(game.apply(state, action), horizon - 1), action)
            for action in game.legal_actions(state)
        ]
        best = max(option.returns[player] for option in options)
        bound = best - TOLERANCE * max(1.0, abs(best))
        return [option for option in options if option.returns[player] >= bound]
