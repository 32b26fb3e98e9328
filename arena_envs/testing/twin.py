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
from typing import Any, NamedTuple

from arena_envs.doors import import_extra, imported
from arena_envs.game import CHANCE, TERMINAL
from arena_envs.registration import make_game
from arena_envs.solvers import Table, nash_conv, solve_zero_sum, uniform_table

TOLERANCE = 1e-9  # of probabilities and returns
MAX_STATES = 20_000  # of a tree that is compared whole
Map = Callable[[Any, Any], Any]
Node = tuple[tuple[Any, ...], tuple[Any, ...], Any, Any]  # histories, states


def same(state: Any, move: Any) -> Any:
    """The map of two games that name their moves alike."""
    return move


class Difference(NamedTuple):
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
    first: Any,
    second: Any,
    *,
    action: Map = same,
    outcome: Map = same,
    returns: bool = True,
    max_states: int = MAX_STATES,
    num_episodes: int = 200,
    seed: int = 0,
) -> Difference | None:
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
    seen = 0
    for seen, node in enumerate(pair.tree()):
        if seen == max_states:
            break
        if found := pair.difference(*node, returns):
            return found
    if seen < max_states:
        return None
    rng = random.Random(seed)
    for _ in range(num_episodes):
        for node in pair.episode(rng):
            if found := pair.difference(*node, returns):
                return found
    return None


def twin_values(
    first: Any, second: Any, policies: Mapping[str, Table] | None = None, **maps: Any
) -> dict[str, tuple[float, ...]]:
    """Solves two zero-sum games of two that differ in their payments alone; needs scipy.

    Returns, for both: the `value` to seat 0, and NashConv of policies: uniform, the last legal action everywhere, an
    equilibrium of each game, and `policies`. `maps` are those of `same_game`. Seats know in the
    second game what they know in the first.

    Raises:
        ValueError: the games differ otherwise, or are too large.
    """
    first, second = twin(first), twin(second)
    if found := same_game(first, second, returns=False, **maps):
        raise ValueError(f"want games that differ in their payments alone: {found}")
    games = first, _Paid(_Pair(first, second, **maps))
    one, other = (solve_zero_sum(game, MAX_STATES) for game in games)
    even = uniform_table(first)
    tables: dict[str, Table] = {
        "uniform": even,
        "last action": {k: [0.0] * (len(p) - 1) + [1.0] for k, p in even.items()},
        "equilibrium of the first": one.table,
        "equilibrium of the second": other.table,
        **(policies or {}),
    }
    lost = {n: tuple(nash_conv(g, t) for g in games) for n, t in tables.items()}
    return {"value": (one.value, other.value), **lost}


class _Pair:
    """Two games with the maps between them."""

    def __init__(
        self, first: Any, second: Any, action: Map = same, outcome: Map = same
    ) -> None:
        self.first, self.second = first, second
        self.action, self.outcome = action, outcome

    def start(self) -> Node:
        return (), (), self.first.initial_state(), self.second.initial_state()

    def moves(self, state: Any) -> list[Any]:
        if self.first.current_player(state) == CHANCE:
            return [o for o, p in self.first.chance_outcomes(state) if p > 0]
        return list(self.first.legal_actions(state))

    def then(self, node: Node, move: Any) -> Node:
        history, others, a, b = node
        chance = self.first.current_player(a) == CHANCE
        other = (self.outcome if chance else self.action)(a, move)
        moved = self.first.apply(a, move), self.second.apply(b, other)
        return (*history, move), (*others, other), *moved

    def tree(self) -> Iterator[Node]:
        waiting = [self.start()]
        while waiting:
            node = waiting.pop()
            yield node  # the caller stops at a difference, so that both games can go on
            waiting += [self.then(node, move) for move in reversed(self.moves(node[2]))]

    def episode(self, rng: random.Random) -> Iterator[Node]:
        node = self.start()
        yield node
        while moves := self.moves(node[2]):
            node = self.then(node, rng.choice(moves))
            yield node

    def difference(
        self, history: Any, others: Any, a: Any, b: Any, returns: bool
    ) -> Difference | None:
        players = self.first.current_player(a), self.second.current_player(b)
        if players[0] != players[1]:
            return Difference(history, others, "current_player", *players)
        if players[0] == CHANCE:
            mine: dict[Any, float] = {}
            for o, p in self.first.chance_outcomes(a):
                if p > 0:  # a map may join outcomes
                    mine[self.outcome(a, o)] = mine.get(self.outcome(a, o), 0.0) + p
            drawn = {o: p for o, p in self.second.chance_outcomes(b) if p > 0}
            near = [abs(p - drawn.get(o, 2.0)) <= TOLERANCE for o, p in mine.items()]
            if mine.keys() != drawn.keys() or not all(near):
                return Difference(history, others, "chance_outcomes", mine, drawn)
        elif players[0] != TERMINAL:
            legal = [self.action(a, x) for x in self.first.legal_actions(a)]
            theirs = list(self.second.legal_actions(b))
            if Counter(legal) != Counter(theirs):
                return Difference(history, others, "legal_actions", legal, theirs)
        got, want = (
            [float(x) for x in game.returns(state)]
            for game, state in ((self.first, a), (self.second, b))
        )
        near = [abs(x - y) <= TOLERANCE for x, y in zip(got, want, strict=False)]
        if returns and (len(got) != len(want) or not all(near)):
            return Difference(history, others, "returns", got, want)
        return None


class _Paid:
    """The tree and the knowledge of the first game, with the payments of the second."""

    def __init__(self, pair: _Pair) -> None:
        self.pair = pair

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.pair.first, name)
        return (
            (lambda state, *more: found(state[0], *more)) if callable(found) else found
        )

    def initial_state(self) -> Any:
        return self.pair.start()[2:]

    def apply(self, state: Any, move: Any) -> Any:
        return self.pair.then(((), (), *state), move)[2:]

    def returns(self, state: Any) -> Any:
        return self.pair.second.returns(state[1])


def twin(name: Any) -> Any:
    """The game of a string; anything else is returned as it is.

    Strings: as in `make_game`; `"openspiel:leduc_poker"`; `"module:Class"`, a class or a function, which is
    called without arguments.
    """
    kind, _, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind == "openspiel":
        return _openspiel(rest)
    made = imported(name, "a class of a game")() if rest and "(" not in name else name
    made = make_game(made) if isinstance(made, str) else made
    if not hasattr(made, "initial_state"):
        want = "a game with explicit states, got an environment"
        raise ValueError(f"want {want}, {made!r}: wrap it, as docs/howto.md does")
    return made


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

    def legal_actions(self, state: Any) -> Sequence[Any]:
        return self.actions(state) if self.current_player(state) >= 0 else ()

    def apply(self, state: Any, move: Any) -> Any:
        self.step(after := self.clone(state), move)
        return after


def _openspiel(name: str) -> EnvTwin:
    pyspiel = import_extra("pyspiel", "openspiel")
    if name.partition("(")[0] not in (known := pyspiel.registered_names()):
        near = ", ".join(difflib.get_close_matches(name, known)) or "no similar one"
        raise ValueError(f"want a game of OpenSpiel, got {name!r}; it has {near}")
    return EnvTwin(
        pyspiel.load_game_as_turn_based(name).new_initial_state(),
        lambda s, move: s.apply_action(move),
        lambda s: int(s.current_player()),  # numbers chance and the end as we do
        lambda s: list(s.legal_actions()),
        lambda s: list(s.returns()),
        lambda s: s.chance_outcomes(),
        lambda s: s.clone(),
    )
