r"""Bargaining: two players divide money by alternating offers, in free words if they like.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("bargaining-v1", complete_information=True)`, see `Bargaining` |
| Agents      | `player_0`, who offers in rounds 1, 3, ..., and `player_1`             |
| Kind        | mixed; perfect information, imperfect if not `complete_information`    |
| Actions     | texts: "offer 40", "accept", "reject", with or without a message       |
| Rewards     | at the end: own share of the pie times own discount factor per round   |
| Length      | 2 to 12 turns, `2 * num_rounds` at most; 3.9375 on average in random play |
| Known value | subgame-perfect play: .295416, .704584; random play: .436275, .439616 |
| Source      | E. Shapira et al., *GLEE* (2024); A. Rubinstein (1982)                 |

In odd rounds `player_0` makes an offer and `player_1` answers, in even rounds the other way
round. "offer 40" gives 40 to the other player and leaves the rest of the pie to the player who
offers. "accept" ends the game. "reject" ends the round, and the player who rejected offers next.
Without an agreement after `num_rounds` rounds both get nothing. What a player gets in round
r is worth `factor ** (r - 1)` of it. Chance draws a factor from `discounts[seat]` for each seat,
all pairs of a split with the same probability. Without `complete_information` a seat knows only its own factor.
This is the first family of GLEE with these changes: factors are drawn, where GLEE fixes them by
configuration; an answer may carry a message, as an offer may; there is always a last round, where
GLEE also plays without a horizon that the players know; and the money is 100 by default, where GLEE
has 100, 10,000 and 1,000,000 (`pie`). OpenSpiel's `bargaining` is another game, about items of private value.

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
no action. Prompts read replies more forgivingly by default: see `docs/replies.md`.
The legal actions are a finite set without messages: "accept", "reject", and
`num_offers` offers evenly spaced from 0 to the pie. The other player sees a message in quotation
marks and in one line, so that it cannot look like the referee's words. Blanks break markup in
it, such as special tokens of chat templates (`arena_envs.hostile`). Words of a reply outside its
answer are not part of the message.

The prompt shows the latest three utterances in full and, of the earlier ones, only the amounts
of the latest six offers; states keep all utterances. Features hold all amounts and answers, but
no messages.

Cheapest trick known: none against an opponent without errors. Offers bind, so words alone pay nothing.

History: version 1 draws from 225 pairs of factors, a half for each split; version 0 had 9 pairs.

Measures of an episode: `agreement` (1 or 0), `efficiency` (the sum of both returns) and
`fairness` (1 - 4(p - 1/2)², with p a share before discounting). The last two follow GLEE and are
0 without an agreement, where GLEE leaves fairness undefined. The mean fairness of agreements is
the mean of `fairness` divided by the mean of `agreement`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from arena_envs import talk
from arena_envs.game import TERMINAL, filled, param
from arena_envs.games.kits.haggling import (
    Haggling,
    State,
    checked_factors,
    drawn_text,
    speaker_of,
)
from arena_envs.scenes.shapes import Shapes, Table, cells, seat_cell, talk_of
from arena_envs.talk import CENT, Utterance, money

ACCEPT, REJECT = Utterance("accept"), Utterance("reject")
DISCOUNTS = tuple(n / 100 for n in range(72, 102, 2))


@dataclass(frozen=True)
class Bargaining(Haggling):
    """Division of `pie` by alternating offers.

    Args:
        pie: the money, 1 to 1,000,000.
        num_rounds: rounds of an offer and an answer, 1 to 50.
        num_offers: offers among the legal actions, 2 to 1001; amounts are whole hundredths.
        discounts: for each seat, its possible discount factors, above 0 and at most 1.
        complete_information: whether both seats are told both factors.
        messages: whether an action may carry a message.
        max_message: longest message in characters, 1 to 400.
        split: of the pairs of factors, "train" or "test", if there are 100 pairs or more.

    Raises:
        ValueError: a parameter is out of range.
    """

    pie: int = param(100, 1, 1_000_000)
    num_rounds: int = param(6, 1, 50)
    num_offers: int = param(11, 2, 1001)
    discounts: Sequence[Sequence[float]] = (DISCOUNTS, DISCOUNTS)
    complete_information: bool = True
    messages: bool = True
    max_message: int = param(300, 1, 400)
    split: str = "train"

    shares_measured = ("agreement", "efficiency", "fairness")
    answers = (talk.Move("accept"), talk.Move("reject"))
    answers_told = ("accept",)
    factor = "discount factor"
    min_return = 0.0
    max_return = 1.0
    default_value = (
        "subgame-perfect play .295416, .704584; random play .436275, .439616"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit % (self.num_offers - 1):
            raise ValueError(
                "want pie / (num_offers - 1) with at most two decimals, got "
                f"pie={self.pie} and num_offers={self.num_offers}"
            )
        limits = "above 0 and at most 1"
        factors = checked_factors(
            "discounts", self.discounts, limits, lambda d: 0 < d <= 1
        )
        object.__setattr__(self, "discounts", factors)
        self.drawn  # noqa: B018 # refuses a split that these factors do not have

    @cached_property
    def all_instances(self) -> Sequence[tuple[float, float]]:
        first, second = self.discounts
        return [
            (discount_0, discount_1) for discount_0 in first for discount_1 in second
        ]

    @property
    def unit(self) -> int:
        return self.pie * CENT

    def returns(self, state: State) -> tuple[float, float]:
        shares = self.shares(state)
        if shares is None:
            return (0.0, 0.0)
        past = len(state.said) // 2 - 1
        first, second = (d**past for d in state.factors)
        return (first * shares[0], second * shares[1])

    def shares(self, state: State) -> tuple[float, float] | None:
        """Share of the pie of each seat, not discounted; None without an agreement."""
        if not state.said or state.said[-1].move != "accept":
            return None
        amount, whole = state.said[-2].values[0], self.unit
        proposer_share, responder_share = (whole - amount) / whole, amount / whole
        return (
            (proposer_share, responder_share)
            if len(state.said) % 4 == 2
            else (responder_share, proposer_share)
        )

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

    def observe(self, state: State, seat: int) -> str:
        discounts, utterances = state
        player, shares, turn = (
            self.current_player(state),
            self.shares(state),
            len(utterances),
        )
        now = "The discount factors are being drawn."
        if shares is not None:
            first, second = (money(round(share * self.unit)) for share in shares)
            now = f"The game is over: agreement in round {turn // 2}, player_0 gets "
            now += f"{first}, player_1 gets {second}."
        elif player == TERMINAL:
            now = "The game is over without an agreement: both players get nothing."
        elif player >= 0:
            now = self.turn_text(turn, player, seat, "make an offer")
        lines = [f"You are player_{seat}. {now}"]
        if len(discounts) == 2 and self.num_rounds > 1:
            past = (turn - (player == TERMINAL)) // 2
            own_discount, other_discount = discounts[seat], discounts[1 - seat]
            text = f"Money is worth {100 * own_discount**past:.4g}% to you (discount factor {own_discount:.10g})"
            more = f"; what it is worth to player_{1 - seat} is hidden."
            if self.complete_information:
                more = f" and {100 * other_discount**past:.4g}% to player_{1 - seat} ({other_discount:.10g})."
            lines.append(text + more)
        return "\n".join([*lines, *self._history(utterances, seat)])

    def _history(self, utterances: Sequence[Utterance], seat: int) -> Iterator[str]:
        """The latest utterances in full, of earlier ones the offers."""

        def full_line(turn: int) -> str:
            speaker, utterance = speaker_of(turn), utterances[turn]
            start = f"Round {turn // 2 + 1}: {talk.named(speaker, seat)}"
            if utterance.move != "offer":
                return f"{start} {utterance.move}ed"
            (amount,) = utterance.values
            hearer, remainder = talk.named(1 - speaker, seat), money(self.unit - amount)
            return f"{start} offered {hearer} {money(amount)}, keeping {remainder}"

        def brief(turn: int) -> str:
            if turn % 2:
                return ""
            amount = money(utterances[turn].values[0])
            return f"player_{speaker_of(turn)} offered {amount} (round {turn // 2 + 1})"

        return talk.transcript(utterances, seat, full_line, brief=brief)

    def rules(self, seat: int) -> str:
        first, second = (
            drawn_text(f"{d:.10g}" for d in discounts) for discounts in self.discounts
        )
        end = "bargaining_once" if self.num_rounds == 1 else "bargaining_rejected"
        return filled(
            "bargaining",
            self,
            order=self.order_text("makes an offer", "making offers"),
            gives=money(40 * self.pie),
            keeps=money(60 * self.pie),
            rejected=filled(end, self, first=first, second=second),
            how=talk.how_to_write(self.moves, self.longest),
        )


def scene(game: Bargaining, state: State, viewer: int | None) -> Shapes:
    """The worth of money to each seat, and the talk."""
    discounts, utterances = state
    past, rows = len(utterances) // 2, []
    for seat, factor in enumerate(discounts):
        worth = ("hidden", "hidden")
        if viewer in (None, seat) or game.complete_information:
            worth = (f"{factor:g}", f"{100 * factor**past:.4g}%")
        rows.append(cells(seat_cell(seat), *worth))

    def done(turn: int, utterance: talk.Utterance) -> str:
        action = f"{utterance.move}s"
        if utterance.move == "offer":
            (amount,) = utterance.values
            remainder = talk.money(game.pie * talk.CENT - amount)
            action = f"offers {talk.money(amount)}, keeping {remainder}"
        return f"{action} (round {turn // 2 + 1})"

    header = ("seat", "discount factor", "money is worth")
    table = Table(f"{game.pie} to divide", header, rows)
    return [table, *talk_of(utterances, viewer, done, speaker_of)]
