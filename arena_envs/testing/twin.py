"""Lockstep comparison of two games that should be one and the same.

    from arena_envs.testing import same_game

    assert same_game(MyKuhnPoker(), "openspiel:kuhn_poker") is None

A game is any object with the methods of `arena_envs.game.ExtensiveForm` up to `returns`, or a string as in
`twin`. So chance must be explicit: an environment that draws cards inside needs an `EnvTwin` that sets them.
"""

import copy
import difflib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    A,
    AnyAction,
    AnyState,
    S,
)
from arena_envs.registration import make_game
from arena_envs.registry import import_extra, imported
from arena_envs.solvers import InfosetTable, nash_conv, solve_zero_sum, uniform_table

TOLERANCE = 1e-9  # of probabilities and returns
MAX_STATES = 20_000  # of a tree that is compared whole
Map = Callable[[Any, Any], Any]
States = tuple[Any, Any]  # of both games
PairNode = tuple[tuple[Any, ...], tuple[Any, ...], Any, Any]  # histories, states


def same_move(state: AnyState, move: AnyAction) -> Any:
    """The map of two games that name their moves alike."""
    return move


class GameTree(Protocol[S, A]):
    """What is compared: `ExtensiveForm` up to `returns`."""

    def initial_state(self) -> S:
        """The state before anything has happened."""

    def current_player(self, state: S, /) -> int:
        """The seat to move, `CHANCE` or `TERMINAL`."""

    def chance_outcomes(self, state: S, /) -> Sequence[tuple[A, float]]:
        """Outcomes of a chance node with their probabilities."""

    def legal_actions(self, state: S, /) -> Sequence[A]:
        """Actions of the seat to move."""

    def apply(self, state: S, move: A, /) -> S:
        """The state after an action or an outcome."""

    def returns(self, state: S, /) -> Sequence[float]:
        """Return of each seat so far."""


AnyTree = GameTree[Any, Any]


class StateDifference(NamedTuple):
    """The first state in which two games differ, and what its method gives in both."""

    history: tuple[Any, ...]  # actions and outcomes of the first game
    twin_history: tuple[Any, ...]  # of the second
    what: str  # "current_player", "chance_outcomes", "legal_actions" or "returns"
    first: Any
    second: Any  # actions in the words of the second

    def __str__(self) -> str:
        moves = ", ".join(map(repr, self.history)) or "the start"
        return (
            f"after {moves}: {self.what} differ\n  first:  {self.first!r}\n"
            f"  second: {self.second!r}"
        )

    def reproduction(self, first: str, second: str) -> str:
        """A script that prints the difference; both games are strings as in `twin`."""
        return (
            "from arena_envs.testing import twin\n\n"
            f"first, second = twin({first!r}), twin({second!r})\n"
            "a, b = first.initial_state(), second.initial_state()\n"
            f"for move, other in zip({self.history!r}, {self.twin_history!r}):\n"
            "    a, b = first.apply(a, move), second.apply(b, other)\n"
            f"print(first.{self.what}(a), second.{self.what}(b))"
        )


def same_game(
    first: AnyTree | str,
    second: AnyTree | str,
    *,
    action: Map = same_move,
    outcome: Map = same_move,
    returns: bool = True,
    max_states: int = MAX_STATES,
    num_episodes: int = 200,
    seed: int = 0,
) -> StateDifference | None:
    """Plays two games side by side: who moves, legal actions, chance and returns of each state.

    Args:
        first: a game, or a string as in `twin`.
        second: the other one.
        action: the action of `second` for a state and an action of `first`; by default the same.
        outcome: likewise for outcomes of chance.
        returns: False leaves payments out.
        max_states: a tree with at most so many states is compared whole.
        num_episodes: of random play, where the tree is larger.
        seed: of random play.

    Returns:
        The first difference; None if there is none on the lines that were compared.
    """
    pair = _Pair(twin(first), twin(second), action, outcome)
    num_states = 0
    for num_states, node in enumerate(pair.tree()):
        if num_states == max_states:
            break
        if difference := pair.difference(node, returns):
            return difference
    if num_states < max_states:
        return None
    rng = random.Random(seed)
    for _ in range(num_episodes):
        for node in pair.episode(rng):
            if difference := pair.difference(node, returns):
                return difference
    return None


def twin_values(
    first: AnyTree | str,
    second: AnyTree | str,
    policies: Mapping[str, InfosetTable] | None = None,
    **maps: Any,
) -> dict[str, tuple[float, ...]]:
    """Solves two zero-sum games of two that differ in their payments alone; needs scipy.

    Returns, for both: the `value` to seat 0, and NashConv of policies: uniform, the last legal action everywhere, an
    equilibrium of each game, and `policies`. `maps` are those of `same_game`. Seats know in the
    second game what they know in the first.

    Raises:
        ValueError: the games differ otherwise, or are too large.
    """
    first_game, second_game = twin(first), twin(second)
    if difference := same_game(first_game, second_game, returns=False, **maps):
        raise ValueError(
            f"want games that differ in their payments alone: {difference}"
        )
    games: Any = first_game, _WithPayments(_Pair(first_game, second_game, **maps))
    first_solution, second_solution = (
        solve_zero_sum(game, MAX_STATES) for game in games
    )
    even = uniform_table(first_game)
    tables: dict[str, InfosetTable] = {
        "uniform": even,
        "last action": {k: [0.0] * (len(p) - 1) + [1.0] for k, p in even.items()},
        "equilibrium of the first": first_solution.table,
        "equilibrium of the second": second_solution.table,
        **(policies or {}),
    }
    lost = {n: tuple(nash_conv(g, t) for g in games) for n, t in tables.items()}
    return {"value": (first_solution.value, second_solution.value), **lost}


class _Pair:
    """Two games with the maps between them."""

    def __init__(
        self,
        first: AnyTree,
        second: AnyTree,
        action: Map = same_move,
        outcome: Map = same_move,
    ) -> None:
        self.first, self.second = first, second
        self.action, self.outcome = action, outcome

    def start(self) -> PairNode:
        return (), (), self.first.initial_state(), self.second.initial_state()

    def moves(self, state: AnyState) -> list[Any]:
        if self.first.current_player(state) == CHANCE:
            return [o for o, p in self.first.chance_outcomes(state) if p > 0]
        return list(self.first.legal_actions(state))

    def then(self, node: PairNode, move: AnyAction) -> PairNode:
        history, twin_history, state, twin_state = node
        is_chance = self.first.current_player(state) == CHANCE
        twin_move = (self.outcome if is_chance else self.action)(state, move)
        return (
            (*history, move),
            (*twin_history, twin_move),
            self.first.apply(state, move),
            self.second.apply(twin_state, twin_move),
        )

    def tree(self) -> Iterator[PairNode]:
        waiting = [self.start()]
        while waiting:
            node = waiting.pop()
            yield node  # the caller stops at a difference, so that both games can go on
            waiting += [self.then(node, move) for move in reversed(self.moves(node[2]))]

    def episode(self, rng: random.Random) -> Iterator[PairNode]:
        node = self.start()
        yield node
        while moves := self.moves(node[2]):
            node = self.then(node, rng.choice(moves))
            yield node

    def difference(self, node: PairNode, returns: bool) -> StateDifference | None:
        """What differs in a state of both games; returns count on request."""
        history, twin_history, state, twin_state = node

        def differ(method: str, first: Any, second: Any) -> StateDifference:
            return StateDifference(history, twin_history, method, first, second)

        player = self.first.current_player(state)
        twin_player = self.second.current_player(twin_state)
        if player != twin_player:
            return differ("current_player", player, twin_player)
        if player == CHANCE:
            chances = self._chances(state)
            twin_chances = {
                outcome: probability
                for outcome, probability in self.second.chance_outcomes(twin_state)
                if probability > 0
            }
            if chances.keys() != twin_chances.keys() or not all(
                abs(probability - twin_chances[outcome]) <= TOLERANCE
                for outcome, probability in chances.items()
            ):
                return differ("chance_outcomes", chances, twin_chances)
        elif player != TERMINAL:
            legal = [self.action(state, x) for x in self.first.legal_actions(state)]
            twin_legal = list(self.second.legal_actions(twin_state))
            if Counter(legal) != Counter(twin_legal):
                return differ("legal_actions", legal, twin_legal)
        paid_first = [float(value) for value in self.first.returns(state)]
        paid_second = [float(value) for value in self.second.returns(twin_state)]
        is_near = len(paid_first) == len(paid_second) and all(
            abs(value - twin_value) <= TOLERANCE
            for value, twin_value in zip(paid_first, paid_second, strict=True)
        )
        if returns and not is_near:
            return differ("returns", paid_first, paid_second)
        return None

    def _chances(self, state: AnyState) -> dict[Any, float]:
        """Outcomes of the first game with their probabilities, in the words of the second."""
        chances: dict[Any, float] = {}
        for outcome, probability in self.first.chance_outcomes(state):
            if probability > 0:  # a map may join outcomes
                twin_outcome = self.outcome(state, outcome)
                chances[twin_outcome] = chances.get(twin_outcome, 0.0) + probability
        return chances


class _WithPayments:
    """The tree and the knowledge of the first game, with the payments of the second."""

    def __init__(self, pair: _Pair) -> None:
        self.pair = pair

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.pair.first, name)
        return (
            (lambda state, *more: attribute(state[0], *more))
            if callable(attribute)
            else attribute
        )

    def initial_state(self) -> States:
        return self.pair.start()[2:]

    def apply(self, state: States, move: AnyAction) -> States:
        return self.pair.then(((), (), *state), move)[2:]

    def returns(self, state: States) -> Sequence[float]:
        return self.pair.second.returns(state[1])


def twin(name: AnyTree | str) -> Any:
    """The game of a string; anything else is returned as it is.

    Strings: as in `make_game`; `"openspiel:leduc_poker"`; `"module:Class"`, a class or a function, which is
    called without arguments.
    """
    game: Any = name
    if isinstance(name, str):
        kind, _, path = name.partition(":")
        if kind == "openspiel":
            return _openspiel(path)
        is_class = path and "(" not in name
        game = imported(name, "a class of a game")() if is_class else make_game(name)
    if not hasattr(game, "initial_state"):
        want = "a game with explicit states, got an environment"
        raise ValueError(
            f"want {want}, {game!r}: wrap it, as docs/credit/check.md does"
        )
    return game


class EnvTwin(NamedTuple):
    """A mutable environment as a game for `same_game`, by functions of it; a state is a copy."""

    env: Any  # at the start
    step: Callable[[Any, Any], Any]  # plays an action, or an outcome of chance
    current_player: Callable[[Any], int]
    actions: Callable[[Any], Sequence[Any]]  # of the seat to move
    returns: Callable[[Any], Sequence[float]]
    chance_outcomes: Callable[[Any], Sequence[tuple[Any, float]]] = lambda env: ()
    clone: Callable[[Any], Any] = copy.deepcopy

    def initial_state(self) -> Any:
        return self.clone(self.env)

    def legal_actions(self, state: AnyState) -> Sequence[Any]:
        return self.actions(state) if self.current_player(state) >= 0 else ()

    def apply(self, state: AnyState, move: AnyAction) -> Any:
        self.step(after := self.clone(state), move)
        return after


def _openspiel(name: str) -> EnvTwin:
    pyspiel = import_extra("pyspiel", "openspiel")
    if name.partition("(")[0] not in (game_names := pyspiel.registered_names()):
        similar_names = (
            ", ".join(difflib.get_close_matches(name, game_names)) or "no similar one"
        )
        raise ValueError(
            f"want a game of OpenSpiel, got {name!r}; it has {similar_names}"
        )
    return EnvTwin(
        pyspiel.load_game_as_turn_based(name).new_initial_state(),
        lambda s, move: s.apply_action(move),
        lambda s: int(s.current_player()),  # numbers chance and the end as we do
        lambda s: list(s.legal_actions()),
        lambda s: list(s.returns()),
        lambda s: s.chance_outcomes(),
        lambda s: s.clone(),
    )
