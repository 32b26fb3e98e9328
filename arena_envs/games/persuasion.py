r"""Persuasion: a seller who knows the quality of a product advises a buyer, again and again.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("persuasion-v1", prior=0.5, value=2.5)`, see `Persuasion`        |
| Agents      | `player_0`, the seller, and `player_1`, the buyer                      |
| Kind        | mixed, imperfect information                                           |
| Actions     | texts: "recommend" or "warn", with or without a message; "buy" or "skip" |
| Rewards     | after each sale 1/T to the seller, and v/T - 1/T or -1/T to the buyer  |
| Length      | 2T turns, T being `num_rounds`                                         |
| Known value | babbling 0, 0; honest .323333, .237417; committed seller .560750, 0     |
| Source      | E. Shapira et al., *GLEE* (2024), section 2.3                          |

At the start chance draws a pair of `prior` and `value`, and both players are told; a single pair is no
draw. In each of T rounds chance draws the quality of a new product: high with probability `prior`,
else low. Only the seller learns it. The seller recommends the product or warns of it, and may add a
message, which need not be true. Then the buyer buys it at price 1 or skips it. A product of high
quality is worth v = `value` to the buyer, one of low quality nothing. The seller earns 1 for every
sale, whatever the quality. Scores are means over the rounds.

The buyer learns the quality of what it has bought. The seller learns what the buyer does. With
`myopic`, every round has another buyer, who reads statistics in place of the past: the number of
products so far, of those that were bought, and of those of low quality among them. All these buyers
have the seat `player_1`. In features and information states, the seat knows the whole past.

This is the third family of GLEE. There a message of the seller is either a recommendation or a
text. Here a text goes with a recommendation, which is all that is left with `messages=False`. GLEE has
one prior and value a configuration, prices of 100, 10,000 and 1,000,000, and also a seller who does not
know the quality of its product; here the price is 1 and the seller always knows.

Talk is cheap: a seller who is believed gains by recommending everything. So in one round, all
equilibria are babbling: the buyer ignores the seller, and buys if `prior` v is at least 1, when both get
1 and `prior` v - 1, else 0 and 0. Honest advice that is followed pays `prior` and `prior` (v - 1).
A seller who could commit itself (Kamenica and Gentzkow, 2011) would recommend each product of high
quality and one of low quality with probability q = min(1, `prior` (v - 1) / (1 - `prior`)). Then
the buyer is as well off as without advice, and the seller gets min(1, `prior` v). In a repeated game
a reputation can take the place of commitment.

A reply gives one move in a sentence of its own, and all other words are the message, of at most
`max_message` characters (`docs/replies.md` shows how replies are read). With `parsing="strict"` the move
stands alone in the last line or sentence, as in `bargaining-v1`. The legal actions are the moves
without messages. The prompt shows the latest two rounds in full and of earlier ones the moves and
the quality, as far as the reader knows it.

Cheapest trick known: honest advice, and a lie in the last round: 0.350 with `persuader:honest`, and honest
advice 0.316 (1,500 episodes); lies in the last three rounds pay 0.339. A lie in the last round in which a
buyer buys costs the seller nothing, so each buyer that ever buys can be lied to. Recommending everything pays 0.073.

History: version 1 draws from 209 pairs of prior and value, a half for each split; version 0 had one,
and its `persuader:honest` believed every claim.

Measures of an episode: GLEE's `efficiency` (share of the products of high quality that are sold) and
`fairness` (share of those of low quality that are not sold), each 1 without such a product, and
`truthfulness`, the share of rounds in which the seller recommends high or warns of low quality.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    HoldsOut,
    Kind,
    Vector,
    check_number,
    counted,
    filled,
    next_entries,
    np,
    param,
    share_of,
)
from arena_envs.scenes.shapes import Cell, Shapes, Table, Track, cells, talk_of
from arena_envs.talk import Utterance

ROLES = ("seller", "buyer")


_PAST = {
    "recommend": "recommended",
    "warn": "warned",
    "buy": "bought",
    "skip": "skipped",
}


def statistics(
    utterances: Sequence[Utterance], qualities: Sequence[str]
) -> Iterator[str]:
    """The lines that a myopic buyer reads: numbers about the past, and the advice of this round."""
    number = len(utterances) // 2
    bought = [
        qualities[n] for n in range(number) if utterances[2 * n + 1].move == "buy"
    ]
    if number:
        yield (
            f"Products before: {number}. Bought: {len(bought)}. Bought, and of low quality: "
            f"{bought.count('low')}."
        )
    if len(utterances) % 2:
        advice = f"Round {number + 1}: player_0 {_PAST[utterances[-1].move]}"
        yield from talk.transcript(utterances[-1:], 1, lambda turn: advice)


def market_text(prior: float, value: float) -> str:
    """The chance of high quality, and what buying gains and loses."""
    return (
        f"The quality is high with probability {prior:.4g}. High quality is worth "
        f"{value:.10g} to player_1, so buying it gains {value - 1:.10g}."
    )


Action = Utterance | str | float  # chance draws prior and value, then qualities

# honest advice pays, and babbling sells nothing: prior times value is below 1
PRIORS = tuple(n / 1000 for n in range(200, 455, 25))
VALUES = tuple(n / 100 for n in range(130, 225, 5))

SELLER, BUYER = 0, 1
HIGH, LOW = "high", "low"
ADVICE = (talk.Move("recommend"), talk.Move("warn"))
CHOICES = (talk.Move("buy", message="no"), talk.Move("skip", message="no"))
MOVES = (*ADVICE, *CHOICES)
RECOMMEND, WARN, BUY, SKIP = (Utterance(move.name) for move in MOVES)


class State(NamedTuple):
    """The qualities drawn so far, all utterances in order; prior and value once drawn."""

    qualities: tuple[str, ...] = ()
    said: tuple[Utterance, ...] = ()
    market: tuple[float, ...] = ()

    def is_bought(self, number: int) -> bool:
        """Whether the product of this round, counted from 0, has been bought."""
        turn = 2 * number + 1
        return turn < len(self.said) and self.said[turn].move == "buy"


@dataclass(frozen=True)
class Persuasion(HoldsOut[tuple[float, float]], talk.PairedTurns[State, Action]):
    """Repeated cheap talk about the quality of products.

    Args:
        num_rounds: products, 1 to 50.
        prior: probability of high quality, 0.01 to 0.99; of several, chance draws one.
        value: what high quality is worth to the buyer, 1.01 to 10, or several values; the
            price is 1.
        myopic: whether each round has another buyer, who reads statistics of the past.
        messages: whether the seller may add a message.
        max_message: longest message in characters, 1 to 400.
        split: of the pairs of prior and value, "train" or "test", if there are 100 or more.

    Raises:
        ValueError: a parameter is out of range.
    """

    seat_roles = ("seller", "buyer")
    num_rounds: int = param(20, 1, 50)
    prior: float | Sequence[float] = PRIORS
    value: float | Sequence[float] = VALUES
    myopic: bool = False
    messages: bool = True
    max_message: int = param(300, 1, 400)
    split: str = "train"

    shares_measured = ("efficiency", "fairness", "truthfulness")
    pays_rounds = True
    first_state = State()
    kind: ClassVar[Kind] = "mixed"
    min_return = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, low, high in (("prior", 0.01, 0.99), ("value", 1.01, 10)):
            for number in _several(getattr(self, name)):
                check_number(name, number, low, high)
        self.drawn  # noqa: B018 # refuses a split that these numbers do not have

    @cached_property
    def all_instances(self) -> Sequence[tuple[float, float]]:
        return list(product(_several(self.prior), _several(self.value)))

    @property
    def max_chance_nodes(self) -> int:
        return self.num_rounds + 2 * (len(self.drawn) > 1)

    @property
    def max_return(self) -> float:
        return float(max(1.0, max(_several(self.value)) - 1))

    def market(self, state: State) -> tuple[float, ...]:
        """Prior and value, as far as they are drawn."""
        return self.drawn[0] if len(self.drawn) == 1 else state.market

    def current_player(self, state: State) -> int:
        qualities, utterances, _ = state
        if len(self.market(state)) < 2:
            return CHANCE
        if len(utterances) == 2 * self.num_rounds:
            return TERMINAL
        if len(utterances) == 2 * len(qualities):
            return CHANCE
        return BUYER if len(utterances) % 2 else SELLER

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        if len(self.market(state)) < 2:
            return next_entries(self.drawn, state.market)
        prior = self.market(state)[0]
        return [(HIGH, prior), (LOW, 1 - prior)]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        if player < 0:
            return ()
        return (RECOMMEND, WARN) if player == SELLER else (BUY, SKIP)

    def core_state(self, state: State) -> State:
        """The state without messages."""
        utterances = talk.nearest(state.said, (RECOMMEND, WARN, BUY, SKIP))
        return state._replace(said=utterances)

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            return state._replace(said=(*state.said, action))
        if isinstance(action, str):
            return state._replace(qualities=(*state.qualities, action))
        return state._replace(market=(*state.market, action))

    def returns(self, state: State) -> tuple[float, float]:
        rounds = range(len(state.said) // 2)
        bought = [state.qualities[n] for n in rounds if state.is_bought(n)]
        value = self.market(state)[1] if bought else 0.0
        gain = value * bought.count(HIGH) - len(bought)
        return (len(bought) / self.num_rounds, gain / self.num_rounds)

    def measures(self, state: State) -> dict[str, float]:
        """Efficiency, fairness and truthfulness, as the page defines them."""
        rights: dict[str, list[bool]] = {HIGH: [], LOW: []}
        is_true = []
        for number, quality in enumerate(state.qualities[: len(state.said) // 2]):
            rights[quality].append(state.is_bought(number) == (quality == HIGH))
            advice = state.said[2 * number].move
            is_true.append((advice == "recommend") == (quality == HIGH))
        return {
            "efficiency": share_of(rights[HIGH]),
            "fairness": share_of(rights[LOW]),
            "truthfulness": share_of(is_true),
        }

    @property
    def known_value(self) -> str | None:
        if self != type(self)():
            return None
        honest = [(prior, prior * (value - 1)) for prior, value in self.drawn]
        sold, gained = (sum(each) / len(honest) for each in zip(*honest, strict=True))
        return (
            f"babbling 0, 0; honest {_short(sold)}, {_short(gained)}; "
            f"committed seller {_short(sold + gained)}, 0"
        )

    def deceit(self, state: State) -> float:
        """The rate at which a committed seller recommends low quality: GLEE's q."""
        prior, value = self.market(state)
        return min(1.0, prior * (value - 1) / (1 - prior))

    def known_qualities(self, state: State, seat: int) -> tuple[str, ...]:
        """The qualities, "" where the seat does not know one."""
        if seat == SELLER:
            return state.qualities
        return tuple(
            quality if state.is_bought(number) else ""
            for number, quality in enumerate(state.qualities)
        )

    def observe(self, state: State, seat: int) -> str:
        player, number = self.current_player(state), len(state.said) // 2
        qualities = self.known_qualities(state, seat)
        now = f"Round {number + 1} of {self.num_rounds}. The quality is being drawn."
        if player == TERMINAL:
            now = f"The game is over after {counted(self.num_rounds, 'round')}."
        elif player >= 0:
            task = "buy or skip" if player else "recommend or warn"
            now = f"Round {number + 1} of {self.num_rounds}. {talk.to_move(player, seat, task)}"
        lines = [f"You are player_{seat}, the {ROLES[seat]}. {now}"]
        if len(state.market) == 2 and len(self.drawn) > 1:
            lines.append(market_text(*state.market))
        if seat == SELLER and len(qualities) > number:
            lines.append(f"The quality of this product is {qualities[number]}.")
        if self.myopic and seat == BUYER:
            lines += statistics(state.said, qualities)
        else:
            lines += self._history(state.said, qualities, seat)
        return "\n".join(lines)

    def _history(
        self, utterances: Sequence[Utterance], qualities: Sequence[str], seat: int
    ) -> Iterator[str]:
        """The latest rounds in full, the moves of earlier ones."""

        def full_line(turn: int) -> str:
            number, speaker = turn // 2, turn % 2
            speaker_name, does = talk.named(speaker, seat), _PAST[utterances[turn].move]
            is_told = speaker and qualities[number]
            more = f"; the quality was {qualities[number]}" if is_told else ""
            return f"Round {number + 1}: {speaker_name} {does}{more}"

        def brief(number: int) -> str:
            quality = f" {qualities[number]}" if qualities[number] else ""
            advice, choice = utterances[2 * number], utterances[2 * number + 1]
            moves = f"{_PAST[advice.move]} and {_PAST[choice.move]}"
            return f"{number + 1}.{quality} {moves}"

        return talk.rounds_told(utterances, seat, full_line, brief)

    def information_state(self, state: State, seat: int) -> Any:
        return (seat, state.market, self.known_qualities(state, seat), state.said)

    def features(self, state: State, seat: int) -> Vector:
        """Seat, who is to move, round; then all that the seat knows of each round.

        One-hot seat (2); whether the seat is to move; share of rounds over; for each round:
        one-hot known quality (2), one-hot advice (2), one-hot choice (2); prior and value.
        """
        values = np.zeros(6 + 6 * self.num_rounds, np.float32)
        values[-2:][: len(self.market(state))] = self.market(state)
        values[seat] = 1
        values[2] = self.current_player(state) == seat
        values[3] = len(state.said) // 2 / self.num_rounds
        rounds = values[4:-2].reshape(self.num_rounds, 6)
        for number, quality in enumerate(self.known_qualities(state, seat)):
            if quality:
                rounds[number, int(quality == LOW)] = 1
        for turn, utterance in enumerate(state.said):
            second = utterance.move in ("warn", "skip")
            rounds[turn // 2, 2 + 2 * (turn % 2) + second] = 1
        return values

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, Utterance):
            return talk.written(action, MOVES)
        if isinstance(action, str):
            return action
        return f"{'value' if state.market else 'prior'} {action:.10g}"

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return CHOICES if len(state.said) % 2 else ADVICE

    def rules(self, seat: int) -> str:
        num, market = len(self.drawn), market_text(*self.drawn[0])
        parts = [filled("persuasion", self, seat=seat, num=num, market=market)]
        if self.myopic:
            parts.append(filled("persuasion_myopic", self, seat=seat))
        syntax = talk.how_to_write(ADVICE if seat == SELLER else CHOICES, self.longest)
        return " ".join([*parts, syntax])

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the qualities again that the seat does not know."""
        visible_qualities = self.known_qualities(state, seat)
        prior = self.market(state)[0] if visible_qualities else 0.0
        qualities = [
            quality or (HIGH if rng.random() < prior else LOW)
            for quality in visible_qualities
        ]
        return state._replace(qualities=tuple(qualities))


def _short(value: float) -> str:
    return f"{value:.6f}".replace("0.", ".", 1)


def _several(value: float | Sequence[float]) -> Sequence[float]:
    return value if isinstance(value, tuple) and value else (value,)


def _trusts(game: Persuasion, state: State) -> bool:
    """No recommended product was of low quality, and no more are recommended than plausible."""
    prior, advice = game.market(state)[0], state.said[::2]
    num = sum(utterance.move == "recommend" for utterance in advice)
    spread = math.sqrt(len(advice) * prior * (1 - prior))
    is_plausible = num <= len(advice) * prior + 2 * spread + 1
    return is_plausible and LOW not in _record(game, state)


def _record(game: Persuasion, state: State) -> list[str]:
    """The qualities of the products that were recommended and bought."""
    qualities = game.known_qualities(state, BUYER)[: len(state.said) // 2]
    return [
        quality
        for number, quality in enumerate(qualities)
        if quality and state.said[2 * number].move == "recommend"
    ]


class Persuader(talk.Scripted):
    """Plays persuasion in one of four styles, as the seller and as the buyer.

    | Style     | Seller                                   | Buyer: buys                         |
    |-----------|------------------------------------------|-------------------------------------|
    | `honest`  | recommends high quality and says so      | what is recommended, while it trusts |
    | `greedy`  | recommends all, and says high quality    | what has paid so far, if recommended |
    | `silent`  | warns of all                             | all, if the prior pays; else nothing |
    | `optimal` | as if committed: low quality with chance q | what is recommended               |

    `honest` trusts until a recommended product proves to be of low quality, or until more are recommended
    than plausible: two standard deviations and one above the mean. `greedy` buys if the value times the share of high quality among the recommended products that
    it bought, with one product of the prior added, is at least the price. `silent` plays the babbling
    equilibrium. The pair of `optimal` players is the benchmark of commitment.
    """

    game, styles = Persuasion, ("greedy", "honest", "optimal", "silent")

    def reply(self, game: Persuasion, state: State, rng: random.Random) -> Utterance:
        if game.current_player(state) == SELLER:
            return self._sell(game, state, rng)
        return BUY if self._buys(game, state) else SKIP

    def _sell(self, game: Persuasion, state: State, rng: random.Random) -> Utterance:
        quality = HIGH if self.style == "greedy" else state.qualities[-1]
        is_high = quality == HIGH and self.style != "silent"
        if self.style == "optimal":
            is_high = is_high or rng.random() < game.deceit(state)
        advice = RECOMMEND if is_high else WARN
        if self.style in ("optimal", "silent"):
            return advice
        return talk.with_words(game, advice, f"The quality is {quality}.")

    def _buys(self, game: Persuasion, state: State) -> bool:
        prior, value = game.market(state)
        if self.style == "silent":
            return prior * value >= 1
        is_recommended = state.said[-1].move == "recommend"
        if self.style == "honest":
            return is_recommended and _trusts(game, state)
        record = _record(game, state)
        share = (record.count(HIGH) + prior) / (len(record) + 1)
        return is_recommended and (self.style == "optimal" or share * value >= 1)


def scene(game: Persuasion, state: State, viewer: int | None) -> Shapes:
    """The products so far, as far as the viewer knows their quality, and the talk."""
    if game.myopic and viewer == BUYER:
        return _myopic(state)
    qualities = (
        state.qualities if viewer is None else game.known_qualities(state, viewer)
    )
    products = [
        Cell(quality or "hidden", "green" if state.is_bought(number) else "")
        for number, quality in enumerate(qualities)
    ]

    def full_line(turn: int, utterance: Utterance) -> str:
        return f"{utterance.move}s (round {turn // 2 + 1})"

    track = Track("products; those that are bought are green", products)
    return [track, *talk_of(state.said, viewer, full_line)]


def _myopic(state: State) -> Shapes:
    """The view of a buyer that knows numbers of the past alone, and the advice of its round."""
    number = len(state.said) // 2
    bought = [state.qualities[n] for n in range(number) if state.is_bought(n)]
    header = ("products before", "bought", "bought, of low quality")
    counts = cells(str(number), str(len(bought)), str(bought.count(LOW)))

    def full_line(turn: int, utterance: Utterance) -> str:
        return f"{utterance.move}s (round {number + 1})"

    return [
        Table("past", header, [counts]),
        *talk_of(state.said[2 * number :], BUYER, full_line),
    ]
