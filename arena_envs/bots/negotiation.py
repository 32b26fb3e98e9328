"""Scripted players of negotiation."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._talk import CENT, Amount, Utterance, money
from arena_envs.games.negotiation import Negotiation, State

SELLER = 0
_STATED = re.compile(r"worth ([0-9]{1,9}(?:\.[0-9]{1,2})?) to me", re.ASCII)


@dataclass(frozen=True)
class Negotiator:
    """Plays negotiation in one of four styles.

    - `honest` says what the product is worth to it, and believes the other player. It offers,
      and accepts, half of the gains from trade; it leaves if there are none. While it does not
      know the other value, it asks for half of what it could gain at most, and accepts every gain.
    - `greedy` says nothing and asks for the value that is best for itself among those that the other
      player may have. It accepts gains in the last round only.
    - `silent` says nothing. It asks for as much as `greedy` in round 1 and for no gain in the last
      round, with equal steps in between, and accepts what it would ask for.
    - `optimal` says nothing and plays the subgame-perfect equilibrium of complete information.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game, or `optimal` without complete
            information.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, Negotiation):
            raise ValueError(f"want Negotiation, got {game!r}")
        seat, turn = game.current_player(state), len(state.said)
        wanted, message = STYLES[self.style](game, state, seat)
        if turn % 2 == 0:
            price = 0 if wanted is None else min(max(wanted, 0), game.highest)
            if wanted is None and seat == SELLER:
                price = game.highest  # nobody buys at this price
            return Utterance("offer", (price,), message)
        price = state.said[-1].values[0]
        sign = 1 if seat == SELLER else -1
        if wanted is not None and sign * (price - wanted) >= 0:
            return Utterance("accept", (), message)
        return Utterance("leave" if wanted is None else "reject", (), message)


Wanted = tuple[
    int | None, str
]  # the price to ask for, None if no sale can pay; a message


def _honest(game: Negotiation, state: State, seat: int) -> Wanted:
    own, other = _worst(game, state, seat), _stated(game, state, seat)
    said = f"The product is worth {money(game.value(state, seat))} to me."
    message = said if game.messages and len(said) <= game.max_message else ""
    if other is None:
        if len(state.said) % 2:
            return own, message
        return (own + _best(game, seat)) // 2, message
    sign = 1 if seat == SELLER else -1
    return (None if sign * (other - own) < 0 else (own + other) // 2), message


def _greedy(game: Negotiation, state: State, seat: int) -> Wanted:
    is_last = len(state.said) == game.max_turns - 1
    return (_worst if is_last else _asked)(game, state, seat), ""


def _silent(game: Negotiation, state: State, seat: int) -> Wanted:
    first, last = _asked(game, state, seat), _worst(game, state, seat)
    past, most = len(state.said) // 2, max(1, game.num_rounds - 1)
    return first + (last - first) * past // most, ""


def _optimal(game: Negotiation, state: State, seat: int) -> Wanted:
    if not game.complete_information:
        raise ValueError(
            f"want complete_information=True for the style 'optimal', got {game!r}"
        )
    limits = _worst(game, state, 0), _worst(game, state, 1)
    if limits[0] > limits[1]:
        return None, ""
    last_to_offer = (game.num_rounds - 1) % 2
    if len(state.said) == game.max_turns - 1:
        return limits[seat], ""
    return limits[1 - last_to_offer], ""


STYLES: dict[str, Callable[[Negotiation, State, int], Wanted]] = {
    "greedy": _greedy,
    "honest": _honest,
    "optimal": _optimal,
    "silent": _silent,
}


def _worst(game: Negotiation, state: State, seat: int) -> int:
    """The price at which a sale is worth as much to a seat as its outside option."""
    sign = 1 if seat == SELLER else -1
    return game.value(state, seat) + sign * _outside(game, seat)


def _outside(game: Negotiation, seat: int) -> int:
    return round(game.outside[seat] * game.scale * CENT)


def _best(game: Negotiation, seat: int) -> int:
    """The best price for a seat among the values that the other one may have."""
    factors = game.factors[1 - seat]
    return round(game.scale * CENT * (max(factors) if seat == SELLER else min(factors)))


def _asked(game: Negotiation, state: State, seat: int) -> int:
    """The best price, but none at a loss."""
    better = max if seat == SELLER else min
    return better(_best(game, seat), _worst(game, state, seat))


def _stated(game: Negotiation, state: State, seat: int) -> int | None:
    """The other seat's limit as this seat knows it, by the rules or by what was said last."""
    other = 1 - seat
    if game.complete_information:
        return _worst(game, state, other)
    words = [
        said.message
        for turn, said in enumerate(state.said)
        if (turn + 1) // 2 % 2 == other
    ]
    found = next(filter(None, map(_STATED.search, reversed(words))), None)
    value = None if found is None else Amount(0, game.highest).read(found[1])
    if value is None:
        return None
    return value + _outside(game, other) * (1 if other == SELLER else -1)
