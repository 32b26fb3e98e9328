"""Parts of Goofspiel: its parameters and its state."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

from arena_envs.game import check_int

PointsOrder = Literal["random", "ascending", "descending"]
ReturnsType = Literal["win_loss", "point_difference", "total_points"]


class State(NamedTuple):
    """The prizes shown and the bids of all seats, in order; card i has the value i + 1."""

    prizes: tuple[int, ...] = ()
    bids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Setup:
    """The parameters of `Goofspiel`, and what follows from a state by them."""

    num_players: int = 2
    num_cards: int = 5
    points_order: PointsOrder = "random"
    imp_info: bool = False
    returns_type: ReturnsType = "win_loss"

    def __post_init__(self) -> None:
        check_int("num_players", self.num_players, 2, 4)
        check_int("num_cards", self.num_cards, 2, 13)
        for name, known in (
            ("points_order", get_args(PointsOrder)),
            ("imp_info", (False, True)),
            ("returns_type", get_args(ReturnsType)),
        ):
            value = getattr(self, name)
            if type(value) is not type(known[0]) or value not in known:
                raise ValueError(f"want {name} as one of {known}, got {value!r}")

    @property
    def most_points(self) -> int:
        """All prizes but one: equal hands cannot win every round."""
        return self.num_cards * (self.num_cards + 1) // 2 - 1

    def rounds(self, state: State) -> list[tuple[int, ...]]:
        """The bids of each round that is over."""
        n, bids = self.num_players, state.bids
        return [bids[i : i + n] for i in range(0, len(bids) - n + 1, n)]

    def running(self, state: State) -> tuple[int, ...]:
        """The bids of the round that is not over."""
        return state.bids[len(state.bids) // self.num_players * self.num_players :]

    def left(self, used: Iterable[int]) -> tuple[int, ...]:
        """Cards or prizes that are not used yet."""
        return _others(frozenset(used), self.num_cards)

    def hand(self, state: State, seat: int) -> tuple[int, ...]:
        """The cards that a seat has not bid."""
        return self.left(state.bids[seat :: self.num_players])

    def open_hand(self, state: State, seat: int) -> tuple[int, ...]:
        """The hand at the start of the round, which does not tell who has bid."""
        past = len(state.bids) // self.num_players
        return self.left(state.bids[seat :: self.num_players][:past])

    def points(self, state: State) -> list[int]:
        """The sum of the prizes of each seat."""
        points = [0] * self.num_players
        for prize, bids in zip(state.prizes, self.rounds(state), strict=False):
            winner = winner_of(bids)
            if winner is not None:
                points[winner] += prize + 1
        return points


@cache
def _others(used: frozenset[int], num_cards: int) -> tuple[int, ...]:
    return tuple([card for card in range(num_cards) if card not in used])


@cache
def winner_of(bids: tuple[int, ...]) -> int | None:
    """The seat with the highest bid; None where several share it."""
    highest = max(bids)
    return bids.index(highest) if bids.count(highest) == 1 else None
