"""Games written as trees, with the methods of `arena_envs.game.Game` that `exact` reads."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CHANCE, TERMINAL = -1, -4
Key = tuple[int, Hashable]  # seat, what it knows
Known = dict[Key, float]
Weights = dict[Key, tuple[int, ...]]


class Branch(NamedTuple):
    """An action or an outcome of chance.

    paid: to each seat. then: what follows. chance: how likely it is. side_reward: what is paid
    to each seat that is not the outcome of the game.
    """

    paid: tuple[float, ...]
    then: "Node | None" = None
    chance: float = 1.0
    side_reward: tuple[float, ...] = ()


class Node(NamedTuple):
    """Who moves (a seat or `CHANCE`), what the seat knows, and the branches in order."""

    seat: int
    knows: Hashable
    branches: tuple[Branch, ...]


class State(NamedTuple):
    """Where a game is, what each seat has been paid, and what of it is not the outcome."""

    node: Node | None
    paid: tuple[float, ...]
    side_reward: tuple[float, ...]


@dataclass(frozen=True)
class Diagnostic:
    """A game written as a tree, with the policy at which it is looked at.

    Args:
        name: of the game.
        tests: the ability that it tests.
        about: what is hard, in a sentence.
        root: the tree.
        known: derivative of a seat's return by the logit of the last action where the
            seat knows this, by (seat, knowledge); worked by hand.
        weights: of the actions where a seat knows this; equal elsewhere.
        teams: team of each seat.
        max_turns: limit of turns, all seats together; None for no limit.
    """

    name: str
    tests: str
    about: str
    root: Node
    known: Mapping[Key, float]
    weights: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)
    teams: Sequence[int] = (0,)
    max_turns: int | None = None

    @property
    def num_players(self) -> int:
        """Number of seats."""
        return len(self.teams)

    def initial_state(self) -> State:
        """The root, nothing paid."""
        nothing = (0.0,) * self.num_players
        return State(self.root, nothing, nothing)

    def current_player(self, state: State) -> int:
        """The seat to move, `CHANCE` or `TERMINAL`."""
        return TERMINAL if state.node is None else state.node.seat

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        """Outcomes with their probabilities."""
        return [(i, b.chance) for i, b in enumerate(_branches(state))]

    def legal_actions(self, state: State) -> Sequence[int]:
        """Numbers of the branches."""
        return range(len(_branches(state)))

    def apply(self, state: State, action: int) -> State:
        """The state after a branch, with what it pays."""
        branch = _branches(state)[action]
        more = branch.side_reward or (0.0,) * self.num_players
        side_reward = _added(state.side_reward, more)
        return State(
            branch.then, _added(_added(state.paid, branch.paid), more), side_reward
        )

    def returns(self, state: State) -> Sequence[float]:
        """What each seat has been paid."""
        return state.paid

    def side_reward(self, state: State) -> Sequence[float]:
        """What of it is not the outcome."""
        return state.side_reward

    def information_state(self, state: State, seat: int) -> Hashable:
        """What the seat to move knows."""
        return None if state.node is None else state.node.knows


def _branches(state: State) -> tuple[Branch, ...]:
    return () if state.node is None else state.node.branches


def _added(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def alone(knows: Hashable, *branches: Branch) -> Node:
    """Where the only seat is to move."""
    return Node(0, knows, branches)


def pay(amount: float, then: Node | None = None) -> Branch:
    """An action that pays the only seat."""
    return Branch((amount,), then)
