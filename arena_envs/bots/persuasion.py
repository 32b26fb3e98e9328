"""Scripted players of persuasion."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._talk import Utterance
from arena_envs.games.persuasion import (
    BUY,
    HIGH,
    LOW,
    RECOMMEND,
    SELLER,
    SKIP,
    WARN,
    Persuasion,
    State,
)


@dataclass(frozen=True)
class Persuader:
    """Plays persuasion in one of four styles, as the seller and as the buyer.

    | Style     | Seller                                   | Buyer: buys                         |
    |-----------|------------------------------------------|-------------------------------------|
    | `honest`  | recommends high quality and says so      | what is said to be of high quality  |
    | `greedy`  | recommends all, and says high quality    | what has paid so far, if recommended |
    | `silent`  | warns of all                             | all, if the prior pays; else nothing |
    | `optimal` | as if committed: low quality with chance q | what is recommended               |

    `greedy` buys if the value times the share of high quality among the recommended products that
    it bought, with one product of the prior added, is at least the price. `silent` plays the babbling
    equilibrium. The pair of `optimal` players is the benchmark of commitment.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, Persuasion):
            raise ValueError(f"want Persuasion, got {game!r}")
        sells, buys = STYLES[self.style]
        if game.current_player(state) == SELLER:
            return sells(game, state.qualities[-1], rng)
        return BUY if buys(game, state) else SKIP


def _says(game: Persuasion, said: Utterance, quality: str) -> Utterance:
    words = f"The quality is {quality}."
    fits = game.messages and len(words) <= game.max_message
    return said._replace(message=words) if fits else said


def _honest(game: Persuasion, quality: str, rng: random.Random) -> Utterance:
    return _says(game, RECOMMEND if quality == HIGH else WARN, quality)


def _greedy(game: Persuasion, quality: str, rng: random.Random) -> Utterance:
    return _says(game, RECOMMEND, HIGH)


def _silent(game: Persuasion, quality: str, rng: random.Random) -> Utterance:
    return WARN


def _optimal(game: Persuasion, quality: str, rng: random.Random) -> Utterance:
    is_recommended = quality == HIGH or rng.random() < game.deceit
    return RECOMMEND if is_recommended else WARN


def _believes_words(game: Persuasion, state: State) -> bool:
    return "quality is high" in state.said[-1].message.lower()


def _reads_record(game: Persuasion, state: State) -> bool:
    known = game.known_qualities(state, 1)
    record = [
        quality
        for number, quality in enumerate(known)
        if state.said[2 * number].move == "recommend"
    ]
    highs, lows = record.count(HIGH), record.count(LOW)
    share = (highs + game.prior) / (highs + lows + 1)
    return state.said[-1].move == "recommend" and share * game.value >= 1


def _by_the_prior(game: Persuasion, state: State) -> bool:
    return game.prior * game.value >= 1


def _follows(game: Persuasion, state: State) -> bool:
    return state.said[-1].move == "recommend"


Seller = Callable[[Persuasion, str, random.Random], Utterance]
Buyer = Callable[[Persuasion, State], bool]

STYLES: dict[str, tuple[Seller, Buyer]] = {
    "greedy": (_greedy, _reads_record),
    "honest": (_honest, _believes_words),
    "optimal": (_optimal, _follows),
    "silent": (_silent, _by_the_prior),
}
