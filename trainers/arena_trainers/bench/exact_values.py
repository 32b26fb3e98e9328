"""Exact values of a tabular policy, in games small enough to enumerate."""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from arena_envs.solvers.tree import (
    best_response_of,
    edge_weights,
    game_tree,
    reach_of,
    values_of,
)
from arena_trainers.bench.graph import Floats, tree_columns
from arena_trainers.bench.tabular import Played, TabularPolicy
from arena_trainers.credit import TurnBatch

EXACT = frozenset({"action_value", "rewards.judge"})
ROUNDING = 1e-9  # values that differ by less are equal


class ActionValues(NamedTuple):
    """Expected return of the seat that is to move, and the gradient of its return.

    value: float64[rows], of the policy's own action.
    action_value: float64[rows, num_actions]; the value itself where a row is not reached,
        and for illegal actions.
    gradient: float64[rows, num_actions], of the seat's own expected return by its logits.
    """

    value: Floats
    action_value: Floats
    gradient: Floats


class ExactPolicy:
    """A policy over the tree of its game. All rows of the graph are information states.

    Args:
        table: the policy; its graph gets a row for each information state.

    Raises:
        TooLarge: the game has too many states to enumerate.
    """

    def __init__(self, table: TabularPolicy) -> None:
        graph = table.graph
        self.tree = game_tree(graph.game)
        self.columns = tree_columns(graph)
        chances = table.probabilities(np.arange(len(graph.rows)))
        self.chances = chances
        self.policy = chances[self.columns]

    @cached_property
    def _weights(self) -> Floats:
        return edge_weights(self.tree, self.policy, range(self.tree.num_players))

    def returns(self) -> Floats:
        """float64[seats], expected."""
        tree = self.tree
        values = [values_of(tree, self._weights, s)[0] for s in range(tree.num_players)]
        return np.array(values)

    def nash_conv(self) -> float:
        """What the seats would gain by best responses, summed; 0 at an equilibrium."""
        seats = range(self.tree.num_players)
        best = [best_response_of(self.tree, self.policy, seat)[0] for seat in seats]
        return float(np.sum(best) - self.returns().sum())

    def action_values(self) -> ActionValues:
        """Values and gradient; see `arena_envs.solvers.action_values`."""
        tree, seats = self.tree, range(self.tree.num_players)
        worth, mass, own = np.zeros((3, tree.num_columns))
        for seat in seats:
            others = edge_weights(tree, self.policy, [s for s in seats if s != seat])
            edges = tree.decisions[seat]
            source, column = tree.source[edges], tree.column[edges]
            reach = reach_of(tree, others)[source]
            after = values_of(tree, self._weights, seat)[tree.target[edges]]
            worth += np.bincount(column, reach * after, tree.num_columns)
            mass += np.bincount(column, reach, tree.num_columns)
            whole = reach_of(tree, self._weights)[source]
            own += np.bincount(column, whole, tree.num_columns)
        found = np.zeros((2, *self.chances.shape))
        found[0][self.columns] = np.divide(worth, mass, where=mass > 0, out=0 * worth)
        found[1][self.columns] = own
        action_value, reached = found
        value = (self.chances * action_value).sum(axis=1)
        legal = np.zeros(self.chances.shape, bool)
        legal[self.columns] = True
        action_value = np.where(legal, action_value, value[:, None])
        gradient = reached * self.chances * (action_value - value[:, None])
        return ActionValues(value, action_value, gradient)


def with_exact_values(table: TabularPolicy, played: Played) -> TurnBatch:
    """The batch with the exact values of the policy.

    Sets the columns `value` and `action_value`, both from the turn on, and the part `judge`
    of the rewards: 1 if `action_value` >= `value`, else -1.
    """
    found = ExactPolicy(table).action_values()
    value = found.value[played.row]
    action_value = found.action_value[played.row, played.action]
    judge = np.where(action_value >= value - ROUNDING, 1.0, -1.0)
    rewards = {**(played.turns.rewards or {}), "judge": judge}
    return replace(
        played.turns,
        value=value - played.paid,
        action_value=action_value - played.paid,
        rewards=rewards,
    )
