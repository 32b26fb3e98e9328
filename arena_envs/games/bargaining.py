r"""Bargaining: two players divide money by alternating offers, in free words if they like.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("bargaining-v0", complete_information=True)`, see `Bargaining` |
| Agents      | `player_0`, who offers in rounds 1, 3, ..., and `player_1`             |
| Kind        | mixed; perfect information, imperfect if not `complete_information`    |
| Actions     | texts: "offer 40", "accept", "reject", with or without a message       |
| Rewards     | at the end: own share of the pie times own discount factor per round   |
| Length      | 2 to 12 turns, `2 * num_rounds` at most; 3.9375 on average in random play |
| Known value | subgame-perfect play: .231894, .768106; random play: .452640 each      |
| Source      | E. Shapira et al., *GLEE* (2024); A. Rubinstein (1982)                 |

In odd rounds `player_0` makes an offer and `player_1` answers, in even rounds the other way
round. "offer 40" gives 40 to the other player and leaves the rest of the pie to the player who
offers. "accept" ends the game. "reject" ends the round, and the player who rejected offers next.
Without an agreement after `num_rounds` rounds both get nothing. What a player gets in round
r is worth `factor ** (r - 1)` of it. Chance draws each seat's factor from `discounts[seat]`,
all with the same probability. Without `complete_information` a seat knows only its own factor.
This is the first family of GLEE with two changes: factors are drawn, and an answer may carry a
message, as an offer may. OpenSpiel's `bargaining` is another game, about items of private value.

By backward induction, the player who offers in the last round takes all. In an earlier round
the offer is what waiting is worth to the other player: its factor times its share as the next
to offer. The known values are means over the draws; those of subgame-perfect play allow offers
of any amount.

A text is read by this grammar, in any case; an amount has at most two decimals:

    text = [message separator] move ["."]
    move = "offer" ["$"] amount | "accept" | "reject"

The separator is a line break or one of `. ! ? ; :`, which stays in the message. A move stands
alone in the last line or sentence. Everything before it is the message, of at most `max_message`
characters. So "Half is fair. offer 50" is an offer with a message, and "I will never accept" is
no action. The legal actions are a finite set without messages: "accept", "reject", and
`num_offers` offers evenly spaced from 0 to the pie. The other player sees a message in quotation
marks and in one line, so that it cannot look like the referee's words. Blanks break markup in
it, such as special tokens of chat templates (`arena_envs.hostile`). Words of a reply outside its
answer are not part of the message.

The prompt shows the latest three utterances in full and, of the earlier ones, only the amounts
of the latest six offers; states keep all utterances. Features hold all amounts and answers, but
no messages.

Measures of an episode: `agreement` (1 or 0), `efficiency` (the sum of both returns) and
`fairness` (1 - 4(p - 1/2)², with p a share before discounting). The last two follow GLEE and are
0 without an agreement, where GLEE leaves fairness undefined. The mean fairness of agreements is
the mean of `fairness` divided by the mean of `agreement`.
"""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Information,
    Kind,
    check_bool,
    check_int,
)
from arena_envs.games import _bargaining_texts as texts
from arena_envs.games import _talk as talk
from arena_envs.games._talk import CENT, Utterance

Action = Utterance | float  # chance draws a discount factor

ANSWERS = (talk.Move("accept"), talk.Move("reject"))
ACCEPT, REJECT = Utterance("accept"), Utterance("reject")


class State(NamedTuple):
    """The discount factors drawn so far, by seat, and all utterances in order."""

    discounts: tuple[float, ...] = ()
    said: tuple[Utterance, ...] = ()


@dataclass(frozen=True)
class Bargaining(BaseGame[State, Action]):
    """Division of `pie` by alternating offers.

    Args:
        pie: the money, 1 to 1,000,000.
        num_rounds: rounds of an offer and an answer, 1 to 50.
        num_offers: offers among the legal actions, 2 to 1001; amounts are whole hundredths.
        discounts: for each seat, its possible discount factors, above 0 and at most 1.
        complete_information: whether both seats are told both factors.
        messages: whether an action may carry a message.
        max_message: longest message in characters, 1 to 400.

    Raises:
        ValueError: a parameter is out of range.
    """

    pie: int = 100
    num_rounds: int = 6
    num_offers: int = 11
    discounts: Sequence[Sequence[float]] = ((0.8, 0.9, 1.0), (0.8, 0.9, 1.0))
    complete_information: bool = True
    messages: bool = True
    max_message: int = 300

    num_players = 2
    num_actions = None
    kind: ClassVar[Kind] = "mixed"
    max_chance_nodes = 2  # both discount factors
    min_return = 0.0
    max_return = 1.0

    def __post_init__(self) -> None:
        check_int("pie", self.pie, 1, 1_000_000)
        check_int("num_rounds", self.num_rounds, 1, 50)
        check_int("num_offers", self.num_offers, 2, 1001)
        check_int("max_message", self.max_message, 1, 400)
        for name in ("complete_information", "messages"):
            check_bool(name, getattr(self, name))
        if self.pie * CENT % (self.num_offers - 1):
            raise ValueError(
                "want pie / (num_offers - 1) with at most two decimals, got "
                f"pie={self.pie} and num_offers={self.num_offers}"
            )
        # YAML and JSON give lists in place of tuples
        object.__setattr__(self, "discounts", texts.checked_discounts(self.discounts))

    @cached_property
    def moves(self) -> tuple[talk.Move, ...]:
        """An offer, and the two answers."""
        return (talk.Move("offer", (talk.Amount(0, self.pie * CENT),)), *ANSWERS)

    @property
    def information(self) -> Information:
        return "perfect" if self.complete_information else "imperfect"

    @property
    def max_turns(self) -> int:
        return 2 * self.num_rounds

    def initial_state(self) -> State:
        return State()

    def current_player(self, state: State) -> int:
        discounts, said = state
        if len(discounts) < 2:
            return CHANCE
        if len(said) == 2 * self.num_rounds or (said and said[-1].move == "accept"):
            return TERMINAL
        return texts.speaker_of(len(said))

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        possible = self.discounts[len(state.discounts)]
        return [(discount, 1 / len(possible)) for discount in possible]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        if self.current_player(state) < 0:
            return ()
        return (ACCEPT, REJECT) if len(state.said) % 2 else self._offers

    @cached_property
    def _offers(self) -> tuple[Utterance, ...]:
        step = self.pie * CENT // (self.num_offers - 1)
        return tuple(Utterance("offer", (step * n,)) for n in range(self.num_offers))

    def core_state(self, state: State) -> State:
        """The state with the nearest of the legal actions in place of each utterance."""
        core = (*self._offers, ACCEPT, REJECT)
        return state._replace(said=talk.nearest(state.said, core))

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            return State(state.discounts, (*state.said, action))
        return State((*state.discounts, action), state.said)

    def returns(self, state: State) -> tuple[float, float]:
        shares = self.shares(state)
        if shares is None:
            return (0.0, 0.0)
        past = len(state.said) // 2 - 1
        first, second = (d**past for d in state.discounts)
        return (first * shares[0], second * shares[1])

    def shares(self, state: State) -> tuple[float, float] | None:
        """Share of the pie of each seat, not discounted; None without an agreement."""
        if not state.said or state.said[-1].move != "accept":
            return None
        given, whole = state.said[-2].values[0], self.pie * CENT
        share, other = (whole - given) / whole, given / whole
        return (share, other) if len(state.said) % 4 == 2 else (other, share)

    def efficiency(self, state: State) -> float:
        """GLEE's efficiency: the sum of the returns. GLEE's self-gain is a seat's return."""
        return sum(self.returns(state))

    def fairness(self, state: State) -> float | None:
        """GLEE's fairness: 1 - 4(p - 1/2)², p a share undiscounted; None without agreement."""
        shares = self.shares(state)
        return None if shares is None else 1 - 4 * (shares[0] - 0.5) ** 2

    def measures(self, state: State) -> dict[str, float]:
        """Agreement, efficiency and fairness; all 0 without an agreement."""
        fairness = self.fairness(state)
        return {
            "agreement": float(fairness is not None),
            "efficiency": self.efficiency(state),
            "fairness": fairness or 0.0,
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        return dict.fromkeys(("agreement", "efficiency", "fairness"), (0.0, 1.0))

    @property
    def known_value(self) -> str | None:
        if self != type(self)():
            return None
        return "subgame-perfect play .231894, .768106; random play .452640 each"

    def observe(self, state: State, seat: int) -> str:
        discounts, said = state
        player, shares = self.current_player(state), self.shares(state)
        whole = self.pie * CENT
        got = None if shares is None else [round(share * whole) for share in shares]
        stage = texts.stage_text(player, seat, len(said), self.num_rounds, got)
        lines = [f"You are player_{seat}. {stage}"]
        if len(discounts) == 2 and self.num_rounds > 1:
            past, known = (
                (len(said) - (player == TERMINAL)) // 2,
                self.complete_information,
            )
            lines.append(texts.worth_text(discounts, seat, past, known))
        return "\n".join([*lines, *texts.history(said, seat, whole)])

    def information_state(self, state: State, seat: int) -> Hashable:
        if self.complete_information:
            return state
        return (seat, state.discounts[seat : seat + 1], state.said)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """Seat, who is to do what, discount factors, round; then all offers and answers.

        One-hot seat (2); one-hot: own offer, own answer, the other's offer, its answer (4);
        own factor and whether it is known, likewise the other's (4); one-hot round; and for
        each round: whether an offer was made, the share that it gives to the other player,
        whether it was accepted.
        """
        rounds, player = self.num_rounds, self.current_player(state)
        values = np.zeros(10 + 4 * rounds, np.float32)
        values[seat] = 1
        if player >= 0:
            values[2 + 2 * (player != seat) + len(state.said) % 2] = 1
            values[10 + len(state.said) // 2] = 1
        for other, discount in enumerate(state.discounts):
            if other == seat or self.complete_information:
                values[6 + 2 * (other != seat) :][:2] = discount, 1
        past = values[10 + rounds :].reshape(rounds, 3)
        for turn, said in enumerate(state.said):
            if said.move == "offer":
                past[turn // 2, :2] = 1, said.values[0] / (self.pie * CENT)
            else:
                past[turn // 2, 2] = said.move == "accept"
        return values

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, Utterance):
            return talk.written(action, self.moves)
        return f"discount factor {action:.10g}"

    def parse(self, state: State, text: str) -> Utterance:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        moves = ANSWERS if len(state.said) % 2 else self.moves[:1]
        return talk.read(text, moves, self._longest)

    def rules(self, seat: int) -> str:
        known = self.complete_information
        rules = texts.rules_text(self.pie, self.num_rounds, self.discounts, known)
        return f"{rules} {talk.how_to_write(self.moves, self._longest)}"

    @property
    def _longest(self) -> int:
        return self.max_message if self.messages else 0

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the hidden factor of the other seat again."""
        if self.complete_information:
            return state
        drawn = list(state.discounts)
        for other in range(len(drawn)):
            if other != seat:
                drawn[other] = rng.choice(self.discounts[other])
        return State(tuple(drawn), state.said)
