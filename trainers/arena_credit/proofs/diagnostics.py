"""Diagnostic games: small enough to enumerate, each with one difficulty.

| Name | Tests | Difficulty |
|---|---|---|
| `bandit` | noise | the arm that pays more often pays less on average |
| `stop_or_go` | length | going on pays 1.2 one turn later, stopping pays 1 now |
| `toll` | length | both actions pay 10 at once; going on costs 1 a turn later |
| `chain` | delay | the first action is paid at the end, the others at once |
| `umbrella` | delay | the action is paid after two turns of random rewards |
| `signal` | team | a signal pays both seats if the second seat guesses the card |
| `three_seats` | seats | three seats; one may have a second turn |
| `patience` | truncation | waiting is paid after the limit of turns |
| `hidden_card` | chance | an unseen card: an action gains 0.05 or 0.2 nine times of ten, else loses 1 |
| `call` | parts | an action has a side reward, and lowers the expected outcome |

The games are finite trees with perfect recall and the methods of `arena_envs.game.ExtensiveForm`. All probabilities are
fractions, so a finite batch can hold every line of play in exact proportion to its
probability.

`diagnostics.toml` has the trees, and derives the known gradients. With two actions of probabilities p and
1 - p, the derivative by the last logit is p (1 - p) · (difference of their expected returns).
"""

import tomllib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arena_envs.game import CHANCE, TERMINAL, InfosetKey


class Branch(NamedTuple):
    """An action, or an outcome of chance.

    paid: what it pays to each seat, side rewards apart.
    then: the node after it; None at the end.
    chance: probability of an outcome of chance.
    side_reward: what it pays to each seat besides.
    """

    paid: tuple[float, ...]
    then: "TreeNode | None"
    chance: float
    side_reward: tuple[float, ...]


class TreeNode(NamedTuple):
    """The seat to move or `CHANCE`, what that seat knows, and the branches in order."""

    seat: int
    knows: Hashable
    branches: tuple[Branch, ...]


class State(NamedTuple):
    """The node, what each seat has been paid so far, and the side reward in it."""

    node: TreeNode | None
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
    root: TreeNode
    known: Mapping[InfosetKey, float]
    weights: Mapping[InfosetKey, tuple[int, ...]] = field(default_factory=dict)
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
        payment = _added(_added(state.paid, branch.paid), branch.side_reward)
        return State(
            branch.then, payment, _added(state.side_reward, branch.side_reward)
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


def _added(a_terms: tuple[float, ...], b_terms: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(a_terms, b_terms, strict=True))


def diagnostic(name: str, entry: Mapping[str, Any]) -> Diagnostic:
    """The game of an entry of `diagnostics.toml`, whose head explains trees.

    >>> entry = {"tests": "-", "about": "-", "tree": [0, "arms", {"pay": 1}, {}]}
    >>> diagnostic("arms", entry).root.branches[0].paid
    (1.0,)
    """
    facts = {name: _tuples(value) for name, value in entry.items() if name in FACTS}
    nothing = np.zeros(len(facts.get("teams", (0,))))

    def node(spec: Any) -> TreeNode:
        seat, *parts = entry[spec] if isinstance(spec, str) else spec
        if seat == "chance":
            return TreeNode(CHANCE, None, tuple(map(branch, parts)))
        return TreeNode(seat, _tuples(parts[0]), tuple(map(branch, parts[1:])))

    def branch(spec: Mapping[str, Any]) -> Branch:
        parts = (spec.get(part, 0.0) for part in ("pay", "side"))
        payment, side = (tuple((nothing + part).tolist()) for part in parts)
        then = node(spec["then"]) if "then" in spec else None
        return Branch(payment, then, spec.get("p", 1.0), side)

    for by_key in ("known", "weights"):
        rows = facts.get(by_key, ())
        facts[by_key] = {(seat, knows): value for seat, knows, value in rows}
    return Diagnostic(name=name, root=node(entry["tree"]), **facts)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


FACTS = ("tests", "about", "known", "weights", "teams", "max_turns")
DIAGNOSTICS: Mapping[str, Diagnostic] = {
    name: diagnostic(name, told)
    for name, told in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text("utf-8")
    ).items()
}
