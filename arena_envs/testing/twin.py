"""Lockstep comparison of two games that should be one and the same.

    from arena_envs.testing import OpenSpielTwin, same_game

    assert same_game(MyKuhnPoker(), OpenSpielTwin("kuhn_poker")) is None

A twin is any object with the methods of `arena_envs.game.ExtensiveForm` up to `returns`. So chance must be
explicit: an environment that draws cards inside needs a class that sets them.
"""

import difflib
import importlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from arena_envs.doors import missing_extra
from arena_envs.game import CHANCE, TERMINAL

TOLERANCE = 1e-9  # of probabilities and returns
Map = Callable[[Any, Any], Any]


class Difference(NamedTuple):
    """The first state in which two games differ.

    Attributes:
        history: actions and outcomes of the first game that lead to it.
        what: who moves, legal actions, outcomes of chance, or returns.
        first, second: in the two games; actions of the second in its own words.
    """

    history: tuple[Any, ...]
    what: str
    first: Any
    second: Any

    def __str__(self) -> str:
        moves = ", ".join(map(repr, self.history)) or "the start"
        return (
            f"after {moves}: {self.what} differ\n  first:  {self.first!r}\n"
            f"  second: {self.second!r}"
        )


def same_game(
    first: Any,
    second: Any,
    *,
    action: Map = lambda state, action: action,
    outcome: Map = lambda state, outcome: outcome,
    max_states: int = 20_000,
    num_episodes: int = 200,
    seed: int = 0,
) -> Difference | None:
    """Plays two games side by side: who moves, legal actions, chance and returns of each state.

    Args:
        first: a game.
        second: the other one.
        action: the action of `second` for a state and an action of `first`; by default the same.
        outcome: likewise for outcomes of chance.
        max_states: a tree with at most so many states is compared whole.
        num_episodes: of random play, where the tree is larger.
        seed: of random play.

    Returns:
        The first difference; None if there is none on the lines that were compared.
    """
    pair = _Pair(first, second, action, outcome)
    seen = 0
    for seen, node in enumerate(pair.tree()):
        if seen == max_states:
            break
        if found := pair.difference(*node):
            return found
    if seen < max_states:
        return None
    rng = random.Random(seed)
    for _ in range(num_episodes):
        for node in pair.episode(rng):
            if found := pair.difference(*node):
                return found
    return None


class _Pair:
    """Two games with the maps between them; a node is a history with both states."""

    def __init__(self, first: Any, second: Any, action: Map, outcome: Map) -> None:
        self.first, self.second = first, second
        self.action, self.outcome = action, outcome

    def start(self) -> tuple[tuple[Any, ...], Any, Any]:
        return (), self.first.initial_state(), self.second.initial_state()

    def moves(self, state: Any) -> list[Any]:
        if self.first.current_player(state) == CHANCE:
            return [
                outcome for outcome, p in self.first.chance_outcomes(state) if p > 0
            ]
        return list(self.first.legal_actions(state))

    def then(self, node: tuple[Any, Any, Any], move: Any) -> tuple[Any, Any, Any]:
        history, a, b = node
        chance = self.first.current_player(a) == CHANCE
        other = (self.outcome if chance else self.action)(a, move)
        return (*history, move), self.first.apply(a, move), self.second.apply(b, other)

    def tree(self) -> Iterator[tuple[Any, Any, Any]]:
        waiting = [self.start()]
        while waiting:
            node = waiting.pop()
            yield node  # the caller stops at a difference, so that both games can go on
            waiting += [self.then(node, move) for move in reversed(self.moves(node[1]))]

    def episode(self, rng: random.Random) -> Iterator[tuple[Any, Any, Any]]:
        node = self.start()
        yield node
        while moves := self.moves(node[1]):
            node = self.then(node, rng.choice(moves))
            yield node

    def difference(self, history: tuple[Any, ...], a: Any, b: Any) -> Difference | None:
        players = self.first.current_player(a), self.second.current_player(b)
        if players[0] != players[1]:
            return Difference(history, "players to move", *players)
        if players[0] == CHANCE:
            mine: dict[Any, float] = {}
            for o, p in self.first.chance_outcomes(a):
                if p > 0:  # a map may join outcomes
                    mine[self.outcome(a, o)] = mine.get(self.outcome(a, o), 0.0) + p
            theirs = {o: p for o, p in self.second.chance_outcomes(b) if p > 0}
            near = [abs(p - theirs.get(o, 2.0)) <= TOLERANCE for o, p in mine.items()]
            if mine.keys() != theirs.keys() or not all(near):
                return Difference(history, "outcomes of chance", mine, theirs)
        elif players[0] != TERMINAL:
            legal = [self.action(a, x) for x in self.first.legal_actions(a)]
            others = list(self.second.legal_actions(b))
            if Counter(legal) != Counter(others):
                return Difference(history, "legal actions", legal, others)
        paid, other_paid = (
            [float(x) for x in g.returns(s)] for g, s in self.games(a, b)
        )
        near = [abs(x - y) <= TOLERANCE for x, y in zip(paid, other_paid, strict=False)]
        if len(paid) != len(other_paid) or not all(near):
            return Difference(history, "returns", paid, other_paid)
        return None

    def games(self, a: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        return (self.first, a), (self.second, b)


class OpenSpielTwin:
    """A game of OpenSpiel for `same_game`; actions and outcomes are OpenSpiel's numbers.

    Args:
        name: such as `"kuhn_poker"` or `"kuhn_poker(players=3)"`.

    Raises:
        ModuleNotFoundError: the extra `openspiel` is not installed.
        ValueError: OpenSpiel has no such game.
    """

    def __init__(self, name: str) -> None:
        try:
            pyspiel: Any = importlib.import_module("pyspiel")
        except ModuleNotFoundError as error:
            raise missing_extra(error, "openspiel") from error
        if name.partition("(")[0] not in (known := pyspiel.registered_names()):
            near = ", ".join(difflib.get_close_matches(name, known)) or "no similar one"
            raise ValueError(f"want a game of OpenSpiel, got {name!r}; it has {near}")
        self.game = pyspiel.load_game(name)
        self.num_players: int = self.game.num_players()

    def initial_state(self) -> Any:
        return self.game.new_initial_state()

    def current_player(self, state: Any) -> int:
        player = int(state.current_player())
        return {-1: CHANCE, -4: TERMINAL}.get(player, player)

    def chance_outcomes(self, state: Any) -> Sequence[tuple[int, float]]:
        return [(int(o), float(p)) for o, p in state.chance_outcomes()]

    def legal_actions(self, state: Any) -> Sequence[int]:
        return [] if state.is_terminal() else list(state.legal_actions())

    def apply(self, state: Any, action: int) -> Any:
        state = state.clone()
        state.apply_action(action)
        return state

    def returns(self, state: Any) -> Sequence[float]:
        return list(state.returns())
