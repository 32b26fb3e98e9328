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

Each function below derives the known gradients. With two actions of probabilities p and
1 - p, the derivative by the last logit is p (1 - p) · (difference of their expected returns).
"""

import tomllib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from arena_envs.game import CHANCE, TERMINAL
from arena_trainers.credit.proofs.lines import Key

# what a game tests, and what is hard, by name
ABOUT: Mapping[str, tuple[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
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


def _bandit() -> Diagnostic:
    """Uniform policy; the arms are worth 1 and 2: 1/4 · (2 - 1)."""
    prize = (Branch((0.0,), chance=0.8), Branch((10.0,), chance=0.2))
    root = alone("arms", pay(1.0), pay(0.0, Node(CHANCE, None, prize)))
    known: Known = {(0, "arms"): 0.25}
    return Diagnostic("bandit", *ABOUT["bandit"], root, known)


def _stop_or_go(name: str, stop: float, now: float, later: float) -> Diagnostic:
    """Uniform policy: 1/4 · (now + later - stop)."""
    last = alone("last", pay(later))
    root = alone("first", pay(stop), pay(now, last))
    known: Known = {(0, "first"): 0.25 * (now + later - stop)}
    return Diagnostic(name, *ABOUT[name], root, known)


def _chain() -> Diagnostic:
    """First turn, uniform: 1/4 · 1. Later turns pay 1 or 0, policy 3/4 and 1/4.

    Second turn, after action 0 (half the time): 1/2 · 3/16 · (0 - 1).
    """

    def after(first: int, second: int) -> Branch:
        ends = (pay(1.0 + first), pay(0.0 + first))
        return pay(1.0 - second, alone((first, second), *ends))

    def start(first: int) -> Branch:
        return pay(0.0, alone((first,), after(first, 0), after(first, 1)))

    pasts: list[tuple[int, ...]] = [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    weights: Weights = {(0, past): (3, 1) for past in pasts}
    root = alone((), start(0), start(1))
    known: Known = {(0, ()): 0.25, (0, (0,)): -0.09375}
    return Diagnostic("chain", *ABOUT["chain"], root, known, weights)


def _umbrella() -> Diagnostic:
    """Rain and sun have probability 1/2; the umbrella pays 1 in rain and -1 in sun.

    Rain, policy 1/4 and 3/4: 1/2 · 3/16 · 2. Sun, uniform: 1/2 · 1/4 · -2.
    """

    def luck(then: tuple[Branch, ...]) -> Node:
        return Node(CHANCE, None, then)

    def days(rain: int, taken: int) -> Node:
        end = 1.0 if rain == taken else -1.0

        def last(paid: float) -> Node:
            outcomes = tuple(Branch((end + x,), chance=0.5) for x in (-1.0, 1.0))
            return alone((rain, taken, paid), pay(0.0, luck(outcomes)))

        outcomes = tuple(Branch((x,), last(x), 0.5) for x in (-1.0, 1.0))
        return alone((rain, taken), pay(0.0, luck(outcomes)))

    def morning(rain: int) -> Branch:
        choice = alone(rain, pay(0.0, days(rain, 0)), pay(0.0, days(rain, 1)))
        return Branch((0.0,), choice, 0.5)

    weights: Weights = {(0, 0): (1, 1), (0, 1): (1, 3)}
    root = luck((morning(0), morning(1)))
    known: Known = {(0, 0): -0.25, (0, 1): 0.1875}
    return Diagnostic("umbrella", *ABOUT["umbrella"], root, known, weights)


def _signal() -> Diagnostic:
    """The signal is true with probability 3/4, and the guess follows it with 3/4.

    First seat, each card with 1/2: the guess is right with 3/4 after a true signal and with
    1/4 after a false one: 1/2 · 3/16 · (3/4 - 1/4). Second seat, by symmetry: the same.
    """
    right, wrong = Branch((1.0, 1.0)), Branch((0.0, 0.0))

    def say(card: int, said: int) -> Branch:
        guesses = tuple(right if guess == card else wrong for guess in (0, 1))
        return Branch((0.0, 0.0), Node(1, ("heard", said), guesses))

    def deal(card: int) -> Branch:
        node = Node(0, ("holds", card), (say(card, 0), say(card, 1)))
        return Branch((0.0, 0.0), node, 0.5)

    known: Known = {}
    weights: Weights = {}
    for seat, verb in enumerate(("holds", "heard")):
        for sign, card in ((-1, 0), (1, 1)):
            known[seat, (verb, card)] = sign * 0.046875
            weights[seat, (verb, card)] = (1, 3) if card else (3, 1)
    root = Node(CHANCE, None, (deal(0), deal(1)))
    return Diagnostic("signal", *ABOUT["signal"], root, known, weights, teams=(0, 0))


def _three_seats() -> Diagnostic:
    """Payments sum to zero. Seat 0 has a second turn after its action 1."""

    def third(a: int, b: int) -> Branch:
        def end(c: int) -> Branch:
            paid = (a + b - 2.0 * c, b - 2.0 * a + c, a - 2.0 * b + c)
            if a == 0:
                return Branch(paid)
            more = Branch((2.0, -1.0, -1.0)), Branch((-1.0, 2.0 * b, 1.0 - 2.0 * b))
            return Branch(paid, Node(0, ("again", b, c), more))

        return Branch((0.0, 0.0, 0.0), Node(2, (a, b), (end(0), end(1))))

    def second(a: int) -> Branch:
        return Branch((0.0, 0.0, 0.0), Node(1, (a,), (third(a, 0), third(a, 1))))

    weights: Weights = {(0, ("again", b, c)): (1, 3) for b in (0, 1) for c in (0, 1)}
    root = Node(0, (), (second(0), second(1)))
    # seat 0's action 1 pays it 1 more, then 2/4 - 3/4 in its second turn: 1/4 (1 - 1/4)
    known: Known = {(0, ()): 0.1875, (2, (0, 0)): 0.0625}
    return Diagnostic(
        "three_seats", *ABOUT["three_seats"], root, known, weights, teams=(0, 1, 2)
    )


def _patience() -> Diagnostic:
    """Uniform policy: 1 at once, or 3 after the limit of two turns: 1/4 · (3 - 1)."""
    late = alone("late", pay(3.0))
    quick = alone("quick", pay(0.0), pay(0.25))
    slow = alone("slow", pay(0.0, late), pay(0.25, late))
    root = alone("first", pay(1.0, quick), pay(0.0, slow))
    known: Known = {(0, "first"): 0.5, (0, "slow"): 0.03125}
    return Diagnostic("patience", *ABOUT["patience"], root, known, max_turns=2)


def _hidden_card() -> Diagnostic:
    """Policy 3/4 and 1/4: 3/16 · (0.9 · 0.05 - 0.1), other seat 3/16 · (0.9 · 0.2 - 0.1).

    A group that shares the card has its own mean and spread. Divided by the spread, 0.05
    weighs as much as -1. Divided by the density of the means (`bnpo`), 0.2 weighs less than
    1/9 of -1.
    """
    nothing = (0.0, 0.0)

    def deal(chance: float, first: float, second: float) -> Branch:
        last = Node(1, "unseen", (Branch(nothing), Branch((0.0, second))))
        root = Node(0, "unseen", (Branch(nothing, last), Branch((first, 0.0), last)))
        return Branch(nothing, root, chance)

    root = Node(CHANCE, None, (deal(0.9, 0.05, 0.2), deal(0.1, -1.0, -1.0)))
    known: Known = {(0, "unseen"): -0.0103125, (1, "unseen"): 0.015}
    weights: Weights = {(0, "unseen"): (3, 1), (1, "unseen"): (3, 1)}
    return Diagnostic(
        "hidden_card", *ABOUT["hidden_card"], root, known, weights, teams=(0, 1)
    )


def _call() -> Diagnostic:
    """Uniform policy. First: 1/4 · (0.1 + 0.2 - 0.5). Last: 1/2 · 1/4 · 0.25."""

    def last(calls: bool) -> Node:
        chance = 0.2 if calls else 0.5
        ends = (Branch((1.0,), chance=chance), Branch((0.0,), chance=1 - chance))
        judged = Node(CHANCE, None, ends)
        neat = Branch((0.0,), judged, side_reward=(0.25,))
        return alone(("last", calls), pay(0.0, judged), neat)

    call = Branch((0.0,), last(True), side_reward=(0.1,))
    root = alone("first", pay(0.0, last(False)), call)
    known: Known = {
        (0, "first"): -0.05,
        (0, ("last", False)): 0.03125,
        (0, ("last", True)): 0.03125,
    }
    return Diagnostic("call", *ABOUT["call"], root, known)


DIAGNOSTICS: Mapping[str, Diagnostic] = {
    game.name: game
    for game in (
        _bandit(),
        _stop_or_go("stop_or_go", 1.0, 0.0, 1.2),
        _stop_or_go("toll", 10.0, 10.0, -1.0),
        _chain(),
        _umbrella(),
        _signal(),
        _three_seats(),
        _patience(),
        _hidden_card(),
        _call(),
    )
}
