"""Walks through all states of a game, layer by layer."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    InfosetKey,
    Ints,
    np,
    possible_actions,
    possible_outcomes,
)

T = TypeVar("T")


class Memory(Generic[T]):
    """Things computed from games; the most recently used ones are kept.

    Args:
        max_things: number of things that are kept.
    """

    def __init__(self, max_things: int) -> None:
        self.max_things = max_things
        self._things: OrderedDict[Any, T] = OrderedDict()

    def recall(self, game: AnyGame, make: Callable[[], T], *more: Hashable) -> T:
        """The thing of an equal game and equal `more`; `make()` if it is not kept."""
        # games that are equal may still differ (1 and True): repr tells
        key: Any = (type(game), game, repr(game), *more)
        try:
            hash(key)
        except TypeError:  # a parameter is not hashable
            return make()
        if key not in self._things:
            self._things[key] = make()
        self._things.move_to_end(key)
        while len(self._things) > self.max_things:
            self._things.popitem(last=False)
        return self._things[key]


InfosetTable = Mapping[InfosetKey, Sequence[float]]

# Limit of the nodes of an enumeration: about 30 s and 0.5 GB. Bots have a lower one.
MAX_STATES = 1_000_000


class TooLarge(ValueError):
    """A game is larger than the limit of a solver."""


def too_large(
    game: AnyGame, size: str, limit: str, hint: str | None = None
) -> TooLarge:
    """The error of a game that is too large: its size, the limit, and what to do."""
    hint = hint or f"give smaller parameters, or use {_instead(game)}"
    return TooLarge(f"{game!r} has {size}, want at most {limit}; {hint}")


def _instead(game: AnyGame) -> str:
    """Bots and solvers for a game that is too large to enumerate."""
    if game.num_actions is None:
        return "a bot that is written for the game"
    is_open = game.information == "perfect" and not game.simultaneous
    advice = (
        'the bot "mcts" or "minimax:DEPTH"' if is_open else 'MCCFR or the bot "ismcts"'
    )
    heuristic = getattr(game, "heuristic", None)  # the fact is optional
    return f'{advice} or "{heuristic}"' if heuristic else advice


def about(number: int) -> str:
    """A number as a text, by its magnitude where it is astronomic.

    >>> about(20_001), about(2**100)
    ('20001', 'about 10^30')
    """
    return str(number) if number < 10**18 else f"about 10^{int(math.log10(number))}"


def too_many_states(game: AnyGame, limit: int) -> TooLarge:
    """The error of a game with more states than the limit; its size is unknown."""
    return too_large(game, f"more than {limit} states", f"max_states={limit}")


class Enumeration:
    """All states of a game as lists.

    Equal states after the same number of actions are one node. Nodes are numbered from
    the initial state on, by number of actions.

    Args:
        game: the rules.
        max_states: limit of the number of nodes.

    Attributes:
        players: seat to move at each node, `CHANCE` or `TERMINAL`.
        infosets: information set of each node, -1 where nobody is to move.
        depths: number of actions before each node.
        payoffs: returns of each terminal node, in order.
        source, target: nodes of each edge, sorted by source.
        slots: index of each edge among those of its source.
        chance: probability of each edge out of a chance node, 1 at others.
        keys: (seat, information state) of each information set.
        states: one state of each information set.
        actions: legal actions of each information set.

    Raises:
        TooLarge: the game has more nodes than `max_states`.
        ValueError: two states of one information state differ in their legal actions.
    """

    def __init__(self, game: AnyGame, max_states: int) -> None:
        self.players: list[int] = []
        self.infosets: list[int] = []
        self.depths: list[int] = []
        self.payoffs: list[tuple[float, ...]] = []
        self.source: list[int] = []
        self.target: list[int] = []
        self.slots: list[int] = []
        self.chance: list[float] = []
        self.keys: list[InfosetKey] = []
        self.states: list[Any] = []
        self.actions: list[Sequence[Any]] = []
        self._game = game
        self._index: dict[InfosetKey, int] = {}
        states, depth = [game.initial_state()], 0
        while states:
            states = self._visit_layer(states, depth, max_states)
            depth += 1

    def _visit_layer(self, states: list[Any], depth: int, limit: int) -> list[Any]:
        """Adds nodes and the edges out of them; returns the states that they lead to."""
        game, following = self._game, dict[Any, int]()
        first = len(self.players) + len(states)  # the node that comes next
        if first > limit:
            raise too_many_states(game, limit)
        for node, state in enumerate(states, len(self.players)):
            player = game.current_player(state)
            self.players.append(player)
            infoset, branches = -1, []
            if player == TERMINAL:
                self.payoffs.append(tuple(game.returns(state)))
            elif player == CHANCE:
                branches = possible_outcomes(game, state)
            else:
                infoset = self._infoset(state, player)
                branches = [(action, 1.0) for action in self.actions[infoset]]
            self.infosets.append(infoset)
            for slot, (action, probability) in enumerate(branches):
                child = game.apply(state, action)
                self.source.append(node)
                self.target.append(following.setdefault(child, first + len(following)))
                self.slots.append(slot)
                self.chance.append(probability)
            if first + len(following) > limit:
                raise too_many_states(game, limit)
        self.depths += [depth] * len(states)
        return list(following)

    def _infoset(self, state: AnyState, player: int) -> int:
        key = (player, self._game.information_state(state, player))
        infoset = self._index.get(key)
        legal = self._game.legal_actions(state)
        if infoset is None:
            infoset = self._index[key] = len(self.keys)
            self.keys.append(key)
            self.states.append(state)
            self.actions.append(tuple(legal))
        elif self.actions[infoset] != tuple(legal):
            raise ValueError(
                f"want equal legal actions in all states of information state {key} of "
                f"{self._game!r}, got {list(self.actions[infoset])} and {list(legal)}; let "
                "information_state tell these states apart"
            )
        return infoset

    def layers(self) -> Ints:
        """A number for each node, larger than those of the nodes before it.

        All nodes of an information set have the same: the depth where that is so.

        Raises:
            ValueError: information states come before each other.
        """
        infoset, depths = np.array(self.infosets), np.array(self.depths)
        source, target = np.array(self.source, np.intp), np.array(self.target, np.intp)
        bounds = np.searchsorted(depths[source], np.arange(depths[-1] + 1))
        decides = infoset >= 0
        layer: Ints = depths
        for _ in range(len(self.keys) + 2):
            latest = np.zeros(len(self.keys), np.intp)
            np.maximum.at(latest, infoset[decides], layer[decides])
            aligned = layer.copy()
            aligned[decides] = latest[infoset[decides]]
            for first, last in pairwise(bounds):
                after = aligned[source[first:last]] + 1
                np.maximum.at(aligned, target[first:last], after)
            if np.array_equal(aligned, layer):
                return layer
            layer = aligned
        raise ValueError(
            f"want perfect recall, got information states of {self._game!r} that come "
            "before each other; let information_state hold all that a seat saw and did"
        )


PROBE = 5_000  # states that are counted before the estimate
MARGIN = 1000  # refuse above this multiple of the limit: alpha-beta meets fewer states


def refuse_hopeless(game: AnyGame, max_states: int) -> None:
    """Refuses a game that is far too large, by an estimate from its first states.

    Layers of states are counted until there are `PROBE` states. The estimate is
    n · g^(t / 4): n states in the last layer, g its growth, t turns left.

    Args:
        game: the rules.
        max_states: limit of the number of states.

    Raises:
        TooLarge: the estimate is more than `MARGIN` times `max_states`.

    >>> from arena_envs import make_game
    >>> refuse_hopeless(make_game("tic_tac_toe"), 1_000_000)
    """
    layer: dict[Any, None] = {game.initial_state(): None}
    num_met, num_turns, growth = 1, 0, 0.0
    while layer and num_met < PROBE:
        following, complete = _following(game, layer, PROBE - num_met)
        # the expanded part of a layer stands for the whole layer
        growth = len(following) / (complete * len(layer))
        num_turns += any(game.current_player(state) >= 0 for state in layer)
        num_met += len(following)
        layer = following
    if not layer or growth <= 1 or num_met < PROBE:
        return
    left = max(0, game.max_turns - num_turns)
    estimate = int(min(1e300, len(layer) * growth ** min(left / 4, 300)))
    if estimate > MARGIN * max_states:
        size = _rounded(estimate)
        size_text = f"{size} states or more, estimated from its first {PROBE:,} states"
        raise too_large(game, size_text, f"max_states={max_states}")


def _following(
    game: AnyGame, layer: dict[Any, None], limit: int
) -> tuple[dict[Any, None], float]:
    """The states after a layer, and the share of the layer that was expanded."""
    following: dict[Any, None] = {}
    for number, state in enumerate(layer, 1):
        for action in possible_actions(game, state):
            following[game.apply(state, action)] = None
        if len(following) >= limit:
            return following, number / len(layer)
    return following, 1.0


def _rounded(estimate: int) -> str:
    """Two digits, or the power of ten of an astronomic number.

    >>> _rounded(1_659_355_348), _rounded(2**100)
    ('about 1,700,000,000', 'about 10^30')
    """
    if estimate >= 10**12:
        return f"about 10^{int(math.log10(estimate))}"
    return f"about {round(estimate, 1 - int(math.log10(estimate))):,}"
