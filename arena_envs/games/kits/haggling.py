"""Haggling: rounds of an offer and an answer, in which each seat has a factor that chance draws.

`player_0` offers in odd rounds and `player_1` in even ones. Bargaining and negotiation are such games.
"""

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    HoldsOut,
    Information,
    Kind,
    Vector,
    hidden_again,
    next_entries,
    np,
)
from arena_envs.talk import Utterance

Action = Utterance | float  # chance draws a factor


class State(NamedTuple):
    """The factors drawn so far, by seat, and all utterances in order."""

    factors: tuple[float, ...] = ()
    said: tuple[Utterance, ...] = ()


def speaker_of(turn: int) -> int:
    """The seat that speaks in a turn: player_0 offers first, and the seat that answers offers next."""
    return (turn + 1) // 2 % 2


def drawn_text(values: Iterable[str]) -> str:
    """The values that chance draws from, as rules tell them."""
    *others, last = values
    if not others:
        return last
    if len(others) > 5:
        return f"{others[0]}, {others[1]} and so on up to {last} (drawn by chance)"
    return f"{', '.join(others)} or {last} (drawn by chance)"


def checked_factors(
    name: str,
    factors: Sequence[Sequence[float]],
    description: str,
    fits: Callable[[float], bool],
) -> tuple[tuple[float, ...], ...]:
    """The factors as tuples of floats; YAML and JSON give lists.

    Raises:
        ValueError: they are not two sets of numbers that fit.
    """
    try:
        sets = tuple(tuple(values) for values in factors)
        valid = len(sets) == 2 and all(
            len(values) == len(set(values)) > 0 and all(map(fits, values))
            for values in sets
        )
    except (TypeError, ValueError, OverflowError):
        valid = False
    if not valid:
        raise ValueError(
            f"want {name} as distinct numbers {description} for each of two seats, got {factors!r:.80}"
        )
    return tuple(tuple(map(float, values)) for values in sets)


class Haggling(HoldsOut[tuple[float, float]], talk.PairedTurns[State, Action]):
    """Rules that all such games share.

    A subclass is a frozen dataclass with these parameters. It names the `answers`, those that have a
    column in the features, and the `factor` for texts; `unit` and `highest` are in hundredths.
    """

    num_rounds: int
    num_offers: int
    complete_information: bool

    first_state = State()
    kind: ClassVar[Kind] = "mixed"
    max_chance_nodes = 2  # both factors
    answers: ClassVar[tuple[talk.Move, ...]]
    answers_told: ClassVar[tuple[str, ...]]
    factor: ClassVar[str] = "factor"
    amount: ClassVar[str] = "AMOUNT"  # of an offer, for rules

    @property
    def unit(self) -> int:
        """The amount that counts as 1 in features."""
        raise NotImplementedError

    @property
    def highest(self) -> int:
        """The highest offer."""
        return self.unit

    @property
    def information(self) -> Information:  # type: ignore[override]  # settable in BaseGame
        return "perfect" if self.complete_information else "imperfect"

    def current_player(self, state: State) -> int:
        factors, utterances = state
        if len(factors) < 2:
            return CHANCE
        is_over = utterances and utterances[-1].move in ("accept", "leave")
        if is_over or len(utterances) == 2 * self.num_rounds:
            return TERMINAL
        return speaker_of(len(utterances))

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        return next_entries(self.drawn, state.factors)

    @cached_property
    def _core(self) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
        """The legal offers, evenly spaced, and the answers."""
        step = self.highest // (self.num_offers - 1)
        offers = tuple(Utterance("offer", (step * n,)) for n in range(self.num_offers))
        return offers, tuple(Utterance(move.name) for move in self.answers)

    def turn_text(self, turn: int, player: int, seat: int, offer: str) -> str:
        """The round and the seat to move, as a seat reads it; `offer` is the task in odd turns."""
        moves = talk.to_move(player, seat, "answer the offer" if turn % 2 else offer)
        return f"Round {turn // 2 + 1} of {self.num_rounds}. {moves}"

    def order_text(self, offer: str, offers: str) -> str:
        """The order of the turns, as rules tell it."""
        if self.num_rounds == 1:
            return f"There is 1 round: player_0 {offer} and player_1 answers."
        return (
            f"There are at most {self.num_rounds} rounds. In round 1 player_0 {offer} and "
            f"player_1 answers; after that they take turns in {offers}."
        )

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        return () if self.current_player(state) < 0 else self._core[len(state.said) % 2]

    def core_state(self, state: State) -> State:
        """The state with the nearest of the legal actions in place of each utterance."""
        offers, answers = self._core
        return state._replace(said=talk.nearest(state.said, (*offers, *answers)))

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            return State(state.factors, (*state.said, action))
        return State((*state.factors, action), state.said)

    def information_state(self, state: State, seat: int) -> Hashable:
        if self.complete_information:
            return state
        return (seat, state.factors[seat : seat + 1], len(state.factors), state.said)

    def features(self, state: State, seat: int) -> Vector:
        """Seat, who is to do what, factors, round; then all offers and answers.

        One-hot seat (2); one-hot: own offer, own answer, the other's offer, its answer (4);
        own factor and whether it is known, likewise the other's (4); one-hot round; and for
        each round: whether an offer was made, its amount over `unit`, and whether the answer
        was each of `answers_told`.
        """
        rounds, player = self.num_rounds, self.current_player(state)
        width = 2 + len(self.answers_told)
        values = np.zeros(10 + (1 + width) * rounds, np.float32)
        values[seat] = 1
        if player >= 0:
            values[2 + 2 * (player != seat) + len(state.said) % 2] = 1
            values[10 + len(state.said) // 2] = 1
        for trader, factor in enumerate(state.factors):
            if trader == seat or self.complete_information:
                values[6 + 2 * (trader != seat) :][:2] = factor, 1
        past = values[10 + rounds :].reshape(rounds, width)
        for turn, utterance in enumerate(state.said):
            if utterance.move == "offer":
                past[turn // 2, :2] = 1, utterance.values[0] / self.unit
            else:
                past[turn // 2, 2:] = [
                    utterance.move == name for name in self.answers_told
                ]
        return values

    @cached_property
    def moves(self) -> tuple[talk.Move, ...]:
        """An offer, and the answers."""
        amount = talk.Amount(0, self.highest, self.amount)
        return (talk.Move("offer", (amount,)), *self.answers)

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return self.answers if len(state.said) % 2 else self.moves[:1]

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, Utterance):
            return talk.written(action, self.moves)
        return f"{self.factor} {action:.10g}"

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the hidden factor of the other seat again."""
        if self.complete_information:
            return state
        factors = hidden_again(self.drawn, state.factors, seat, rng)
        return State(factors, state.said)
