"""Diagnostic games: each small enough to enumerate, and hard in one way.

| Name | Tests | What is hard |
|---|---|---|
| `bandit` | noise | what wins often pays less than what seldom pays much |
| `stop_or_go` | length | going on pays a little more, one turn later |
| `toll` | length | both ways pay 10 at once, and going on costs 1 later |
| `chain` | delay | the first choice is paid at the end, the others at once |
| `umbrella` | delay | the choice is paid after two turns of pure luck |
| `signal` | team | a signal pays both seats if the other seat reads it |
| `three_seats` | seats | three seats, one of which may have a second turn |
| `patience` | truncation | a limit of turns cuts off what waiting would pay |
| `hidden_card` | chance | what often helps a little seldom does great harm, by an unseen card |
| `call` | parts | a call is paid at once, besides an outcome that it makes less likely |

They are finite trees with the methods of `arena_envs.game.Game` that `exact` reads. Seats
remember all that they saw and did, and no probability is irrational: a batch can hold every
line of play exactly as often as it is likely.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CHANCE, TERMINAL = -1, -4
Key = tuple[int, Hashable]  # seat, what it knows
Known = dict[Key, float]
Weights = dict[Key, tuple[int, ...]]


class Branch(NamedTuple):
    """An action or an outcome of chance.

    paid: to each seat. then: what follows. chance: how likely it is. besides: what is paid
    to each seat that is not the outcome of the game.
    """

    paid: tuple[float, ...]
    then: "Node | None" = None
    chance: float = 1.0
    besides: tuple[float, ...] = ()


class Node(NamedTuple):
    """Who moves (a seat or `CHANCE`), what the seat knows, and the branches in order."""

    seat: int
    knows: Hashable
    branches: tuple[Branch, ...]


class State(NamedTuple):
    """Where a game is, what each seat has been paid, and what of it is not the outcome."""

    node: Node | None
    paid: tuple[float, ...]
    besides: tuple[float, ...]


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
        more = branch.besides or (0.0,) * self.num_players
        besides = _added(state.besides, more)
        return State(branch.then, _added(_added(state.paid, branch.paid), more), besides)

    def returns(self, state: State) -> Sequence[float]:
        """What each seat has been paid."""
        return state.paid

    def besides(self, state: State) -> Sequence[float]:
        """What of it is not the outcome."""
        return state.besides

    def information_state(self, state: State, seat: int) -> Hashable:
        """What the seat to move knows."""
        return None if state.node is None else state.node.knows


def _branches(state: State) -> tuple[Branch, ...]:
    return () if state.node is None else state.node.branches


def _added(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _alone(knows: Hashable, *branches: Branch) -> Node:
    return Node(0, knows, branches)


def _pay(amount: float, then: Node | None = None) -> Branch:
    return Branch((amount,), then)


def _bandit() -> Diagnostic:
    """Evenly chosen arms are worth 1 and 2: the derivative is 1/4 (2 - 1)."""
    prize = (Branch((0.0,), chance=0.8), Branch((10.0,), chance=0.2))
    root = _alone("arms", _pay(1.0), _pay(0.0, Node(CHANCE, None, prize)))
    known: Known = {(0, "arms"): 0.25}
    return Diagnostic(
        "bandit",
        "noise",
        "What wins often pays 1, what seldom wins pays 10 with chance 1/5.",
        root,
        known,
    )


def _stop_or_go(name: str, stop: float, now: float, later: float) -> Diagnostic:
    """Evenly chosen: 1/4 (now + later - stop)."""
    last = _alone("last", _pay(later))
    root = _alone("first", _pay(stop), _pay(now, last))
    known: Known = {(0, "first"): 0.25 * (now + later - stop)}
    about = f"Stopping pays {stop:g}, going on {now:g}, and {later:g} one turn later."
    return Diagnostic(name, "length", about, root, known)


def _chain() -> Diagnostic:
    """The first choice is worth 1 at the end: 1/4. Later ones pay 1 or 0, chosen 3 to 1."""

    def after(first: int, second: int) -> Branch:
        ends = (_pay(1.0 + first), _pay(0.0 + first))
        return _pay(1.0 - second, _alone((first, second), *ends))

    def start(first: int) -> Branch:
        return _pay(0.0, _alone((first,), after(first, 0), after(first, 1)))

    pasts: list[tuple[int, ...]] = [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    weights: Weights = {(0, past): (3, 1) for past in pasts}
    root = _alone((), start(0), start(1))
    known: Known = {(0, ()): 0.25, (0, (0,)): -0.09375}
    return Diagnostic(
        "chain",
        "delay",
        "The first choice is paid at the end, the others at once.",
        root,
        known,
        weights,
    )


def _umbrella() -> Diagnostic:
    """Reached half the time, chosen 1 to 3, ±1: 1/2 · 3/16 · 2, and against it in the sun."""

    def luck(then: tuple[Branch, ...]) -> Node:
        return Node(CHANCE, None, then)

    def days(rain: int, taken: int) -> Node:
        end = 1.0 if rain == taken else -1.0

        def last(paid: float) -> Node:
            outcomes = tuple(Branch((end + x,), chance=0.5) for x in (-1.0, 1.0))
            return _alone((rain, taken, paid), _pay(0.0, luck(outcomes)))

        outcomes = tuple(Branch((x,), last(x), 0.5) for x in (-1.0, 1.0))
        return _alone((rain, taken), _pay(0.0, luck(outcomes)))

    def morning(rain: int) -> Branch:
        choice = _alone(rain, _pay(0.0, days(rain, 0)), _pay(0.0, days(rain, 1)))
        return Branch((0.0,), choice, 0.5)

    weights: Weights = {(0, 0): (1, 1), (0, 1): (1, 3)}
    root = luck((morning(0), morning(1)))
    known: Known = {(0, 0): -0.25, (0, 1): 0.1875}
    return Diagnostic(
        "umbrella",
        "delay",
        "The choice is paid after two turns of pure luck.",
        root,
        known,
        weights,
    )


def _signal() -> Diagnostic:
    """What is said is true 3 times in 4, and so is the guess.

    Said truly, a card is guessed with 3/4, and said falsely with 1/4: 3/16 · 1/2, half the
    time. What is heard is that card with 3/4, and else with 1/4: as much.
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
    return Diagnostic(
        "signal",
        "team",
        "A signal pays both seats if the other seat reads it.",
        root,
        known,
        weights,
        teams=(0, 0),
    )


def _three_seats() -> Diagnostic:
    """Payments sum to zero. Seat 0 has a second turn after its action 1, chosen 1 to 3."""

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
    # own action pays seat 0 one more and then 2/4 - 3/4: 1/4 (1 - 1/4)
    known: Known = {(0, ()): 0.1875, (2, (0, 0)): 0.0625}
    return Diagnostic(
        "three_seats",
        "seats",
        "Three seats, payments that sum to zero, and one may have a second turn.",
        root,
        known,
        weights,
        teams=(0, 1, 2),
    )


def _patience() -> Diagnostic:
    """Evenly chosen: 1 at once, or 3 after the limit of two turns: 1/4 (3 - 1)."""
    late = _alone("late", _pay(3.0))
    quick = _alone("quick", _pay(0.0), _pay(0.25))
    slow = _alone("slow", _pay(0.0, late), _pay(0.25, late))
    root = _alone("first", _pay(1.0, quick), _pay(0.0, slow))
    known: Known = {(0, "first"): 0.5, (0, "slow"): 0.03125}
    return Diagnostic(
        "patience",
        "truncation",
        "A limit of two turns cuts off the 3 that waiting would pay; 1 is paid at once.",
        root,
        known,
        max_turns=2,
    )


def _hidden_card() -> Diagnostic:
    """Evenly chosen: 1/4 (3/4 · 0.1 - 1/4 · 1)."""

    def deal(chance: float, pays: float) -> Branch:
        return Branch((0.0,), _alone("unseen", _pay(0.0), _pay(pays)), chance)

    root = Node(CHANCE, None, (deal(0.75, 0.1), deal(0.25, -1.0)))
    known: Known = {(0, "unseen"): -0.04375}
    return Diagnostic(
        "hidden_card",
        "chance",
        "Daring pays 0.1, but -1 with every fourth card, which cannot be seen.",
        root,
        known,
    )


def _call() -> Diagnostic:
    """Evenly chosen: 1/4 (0.1 + 0.2 - 0.5), then half the time 1/4 · 0.25."""

    def last(calls: bool) -> Node:
        chance = 0.2 if calls else 0.5
        ends = (Branch((1.0,), chance=chance), Branch((0.0,), chance=1 - chance))
        judged = Node(CHANCE, None, ends)
        neat = Branch((0.0,), judged, besides=(0.25,))
        return _alone(("last", calls), _pay(0.0, judged), neat)

    call = Branch((0.0,), last(True), besides=(0.1,))
    root = _alone("first", _pay(0.0, last(False)), call)
    known: Known = {
        (0, "first"): -0.05,
        (0, ("last", False)): 0.03125,
        (0, ("last", True)): 0.03125,
    }
    return Diagnostic(
        "call",
        "parts",
        "A call is paid 0.1 besides the outcome, which is 1 with chance 0.2 instead of 0.5; "
        "neatness at the end is paid 0.25 besides.",
        root,
        known,
    )


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
