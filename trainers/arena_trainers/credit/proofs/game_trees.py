"""Games written as trees, with the methods of `arena_envs.game.ExtensiveForm`."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arena_envs.game import TERMINAL
from arena_trainers.credit.proofs.lines import Key

Known = dict[Key, float]
Weights = dict[Key, tuple[int, ...]]


class Branch(NamedTuple):
    """An action, or an outcome of chance.

    paid: what it pays to each seat, side rewards apart.
    then: the node after it; None at the end.
    chance: probability of an outcome of chance.
    side_reward: what it pays to each seat besides; () for nothing.
    """

    paid: tuple[float, ...]
    then: "Node | None" = None
    chance: float = 1.0
    side_reward: tuple[float, ...] = ()


class Node(NamedTuple):
    """The seat to move or `CHANCE`, what that seat knows, and the branches in order."""

    seat: int
    knows: Hashable
    branches: tuple[Branch, ...]


class State(NamedTuple):
    """The node, what each seat has been paid so far, and the side reward in it."""

    node: Node | None
    paid: tuple[float, ...]
    side_reward: tuple[float, ...]


@dataclass(frozen=True)
class Diagnostic:
    """A game written as a tree, with the policy of which the gradient is estimated.

    Args:
        name: of the game.
        tests: the ability that it tests.
        about: what is hard, in a sentence.
        root: the tree.
        known: derivative of the seat's return by the logit of its last action, by (seat,
            what it knows); worked by hand.
        weights: of the actions, by (seat, what it knows). The policy is in proportion to
            them; without an entry it is uniform.
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
        """Numbers of the branches, with their probabilities."""
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
        """The payments to each seat so far, with side rewards."""
        return state.paid

    def side_reward(self, state: State) -> Sequence[float]:
        """The part of each seat's return that does not belong to the outcome."""
        return state.side_reward

    def information_state(self, state: State, seat: int) -> Hashable:
        """The knowledge of the seat to move."""
        return None if state.node is None else state.node.knows


def _branches(state: State) -> tuple[Branch, ...]:
    return () if state.node is None else state.node.branches


def _added(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def alone(knows: Hashable, *branches: Branch) -> Node:
    """A node of a game with one seat."""
    return Node(0, knows, branches)


def pay(amount: float, then: Node | None = None) -> Branch:
    """An action in a game with one seat, which it pays."""
    return Branch((amount,), then)
