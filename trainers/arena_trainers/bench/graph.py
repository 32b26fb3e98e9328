"""The states of a game as arrays that grow with play, so that episodes run in lockstep."""

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.solvers.tree import game_tree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KeyOf = Callable[[Any, int], Hashable]

MAX_NODES = 1_000_000  # kept in memory: about 1 GB in Mini Hanabi
SURE = 2.0  # a cumulative probability above any draw
UNKNOWN = -1  # a child that nothing has visited yet


class Graph:
    """The states that play has visited, numbered in the order of the visits; 0 is the first.

    Equal states are one node. What the graph knows does not depend on a policy, so all
    runs of a process share it.

    Args:
        game: the rules; actions must be numbered, and draws of chance limited.
        key_of: key of a row, by state and seat; None for the information state.

    Attributes:
        player: int64[nodes], seat to move, `CHANCE` or `TERMINAL`.
        paid: float64[nodes, seats], returns so far.
        row: int64[nodes], of the seat to move; at chance nodes, index in `chances`.
        child: int64[nodes, width], node after each action or outcome, or `UNKNOWN`.
        chances: float64[distributions, width], cumulative probabilities of outcomes, then
            `SURE`.
        legal: bool[rows, num_actions].
        rows: row of each (seat, key).

    Raises:
        ValueError: a language game, or one without a limit of draws of chance.
    """

    def __init__(self, game: AnyGame, key_of: KeyOf | None = None) -> None:
        if game.num_actions is None or game.max_chance_nodes is None:
            raise ValueError(
                f"want a game with numbered actions and at most a given number of draws "
                f"of chance, got {game!r}"
            )
        self.game = game
        self.num_actions: int = game.num_actions
        self.num_draws: int = game.max_chance_nodes
        self.rows: dict[tuple[int, Hashable], int] = {}
        self.legal = np.zeros((64, self.num_actions), bool)
        self._key_of = key_of or game.information_state
        self._distributions: dict[tuple[float, ...], int] = {}
        self.chances = np.full((4, self.num_actions), SURE)
        self._start()

    def expand(self, node: Ints, at: Ints) -> Ints:
        """int64[len(node)]: the children by index of the action; adds those not known."""
        found = self.child[node, at]
        for i in np.flatnonzero(found == UNKNOWN).tolist():
            parent, index = int(node[i]), int(at[i])
            found[i] = self.child[parent, index]
            if found[i] == UNKNOWN:
                found[i] = self._child(parent, index)
        return found

    def forget_if_full(self) -> None:
        """Forgets all nodes if there are more than `MAX_NODES`; rows stay."""
        if len(self._states) >= MAX_NODES:
            self._start()

    def row_of(self, state: Any, seat: int) -> int:
        """The row of a seat that is to move; a new one if its key is new."""
        key = seat, self._key_of(state, seat)
        row = self.rows.setdefault(key, len(self.rows))
        if row == len(self.legal):
            self.legal = np.concatenate([self.legal, np.zeros_like(self.legal)])
        self.legal[row, list(self.game.legal_actions(state))] = True
        return row

    def _start(self) -> None:
        self._states: list[Any] = []
        self._index: dict[Any, int] = {}
        self.player = np.zeros(64, np.int64)
        self.row = np.zeros(64, np.int64)
        self.paid = np.zeros((64, self.game.num_players))
        self.child = np.full((64, self.chances.shape[1]), UNKNOWN)
        self._node(self.game.initial_state())

    def _child(self, parent: int, index: int) -> int:
        state = self._states[parent]
        action: Any = index
        if self.player[parent] == CHANCE:
            action = self.game.chance_outcomes(state)[index][0]
        child = self._node(self.game.apply(state, action))
        self.child[parent, index] = child
        return child

    def _node(self, state: Any) -> int:
        node = self._index.setdefault(state, len(self._states))
        if node < len(self._states):
            return node
        if node == len(self.player):
            for name, fill in (("player", 0), ("row", 0), ("paid", 0), ("child", -1)):
                column = getattr(self, name)
                more = np.concatenate([column, np.full_like(column, fill)])
                setattr(self, name, more)
        self._states.append(state)
        player = self.player[node] = self.game.current_player(state)
        self.paid[node] = self.game.returns(state)
        if player == CHANCE:
            outcomes = self.game.chance_outcomes(state)
            self.row[node] = self._distribution([p for _, p in outcomes])
        elif player != TERMINAL:
            self.row[node] = self.row_of(state, int(player))
        return node

    def _distribution(self, chances: Sequence[float]) -> int:
        """The number of a distribution over outcomes."""
        number = self._distributions.setdefault(
            tuple(chances), len(self._distributions)
        )
        if len(chances) > self.chances.shape[1]:
            more = len(chances) - self.chances.shape[1]
            self.chances = np.pad(
                self.chances, ((0, 0), (0, more)), "constant", constant_values=SURE
            )
            self.child = np.pad(
                self.child, ((0, 0), (0, more)), "constant", constant_values=UNKNOWN
            )
        if number == len(self.chances):
            self.chances = np.concatenate(
                [self.chances, np.full_like(self.chances, SURE)]
            )
        sums = list(accumulate(chances))[:-1]
        self.chances[number, : len(sums)] = sums
        return number


@cache
def tree_columns(graph: Graph) -> tuple[Ints, Ints]:
    """The row and action of each column of the game's tree; adds the rows to the graph.

    Raises:
        TooLarge: the game has too many states to enumerate.
    """
    tree = game_tree(graph.game)
    rows = [
        graph.row_of(state, seat)
        for (seat, _), state in zip(tree.keys, tree.states, strict=True)
    ]
    place, action = np.nonzero(graph.legal[rows])
    return np.array(rows, np.int64)[place], action
