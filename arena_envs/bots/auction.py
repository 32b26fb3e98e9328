"""Scripted bidders."""

import random
import re
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games import _auction_state as states
from arena_envs.games._auction_state import ASCENDING, SEALED_FIRST, TALK, State
from arena_envs.games._talk import Utterance
from arena_envs.games.auction import DROP, PASS, Auction

STYLES = ("greedy", "honest", "silent")
WORTH = re.compile(r"worth ([0-9]{1,4}) to me")


@dataclass(frozen=True)
class Bidder:
    """Bids in an auction in one of three styles.

    | Style    | Before the sale                      | Bids                                  |
    |----------|--------------------------------------|---------------------------------------|
    | `honest` | says what the item is worth to it    | nothing if another said more, else its value |
    | `greedy` | says that it is worth all its budget | its value                             |
    | `silent` | passes                               | its value                             |

    If two say the same, the one with the higher number bids nothing. A bidder never bids more than
    is left of its budget. In ascending auctions it raises by 1 up to that bid. At
    first price it bids (N - 1) / N of the value among N players, rounded down, at least 1 of a value
    above 0. At second price with one item, `silent` plays the dominant strategy.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, Auction):
            raise ValueError(f"want Auction, got {game!r}")
        seat = game.current_player(state)
        value, left = (
            game.value(state, seat, state.item),
            states.left(state, seat, game.budget),
        )
        if state.phase == TALK:
            said = {"honest": value, "greedy": left}.get(self.style)
            words = f"This is worth {said} to me."
            speaks = said is not None and len(words) <= game.max_message
            return PASS._replace(message=words) if speaks else PASS
        if self.style == "honest" and _is_outbid_in_words(state, seat, value):
            value = 0
        bid = min(value, left)
        if game.pricing == ASCENDING:
            more = state.price + 1
            return Utterance("bid", (more,)) if more <= bid else DROP
        if game.pricing == SEALED_FIRST:
            share = value * (game.num_players - 1) // game.num_players
            bid = min(left, max(share, min(value, 1)))
        return Utterance("bid", (bid,))


def _is_outbid_in_words(state: State, seat: int, value: int) -> bool:
    """Whether another player says that the item is worth more to it, or as much to a lower seat."""
    for each in state.past:
        if each.item == state.item and each.phase == TALK and each.seat != seat:
            found = WORTH.search(each.said.message)
            if found and (int(found[1]), seat) > (value, each.seat):
                return True
    return False
