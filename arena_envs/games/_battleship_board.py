"""Parts of Battleship: its parameters, its state, and the geometry of ships and shots."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from arena_envs.game import check_bool, check_int

MISS, HIT, SUNK = "MHS"


class State(NamedTuple):
    """Placements and then shots, each of both seats in turn."""

    placed: tuple[int, ...] = ()
    shots: tuple[int, ...] = ()


@dataclass(frozen=True)
class Board:
    """The parameters of `Battleship`, and what follows from them.

    Sets of squares are the bits of an integer; squares are numbered row by row.
    """

    board_width: int = 4
    board_height: int = 4
    ship_sizes: Sequence[int] = (2, 3)
    ship_values: Sequence[float] | None = None
    num_shots: int = 10
    allow_repeated_shots: bool = False
    loss_multiplier: float = 1.0

    def __post_init__(self) -> None:
        check_int("board_width", self.board_width, 1, 10)
        check_int("board_height", self.board_height, 1, 10)
        for name in ("ship_sizes", "ship_values"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_ships()
        check_bool("allow_repeated_shots", self.allow_repeated_shots)
        most = 1000 if self.allow_repeated_shots else self.num_squares
        check_int("num_shots", self.num_shots, 1, most)
        _check_number("loss_multiplier", self.loss_multiplier)

    def _check_ships(self) -> None:
        sizes, longest = self.ship_sizes, max(self.board_width, self.board_height)
        if type(sizes) is not tuple or not 1 <= len(sizes) <= 5:
            raise ValueError(f"want ship_sizes as 1 to 5 integers, got {sizes!r}")
        for size in sizes:
            check_int("size in ship_sizes", size, 1, longest)
        if not self.can_place(sizes, 0):
            raise ValueError(
                f"want ships that fit on a board of {self.board_width} x "
                f"{self.board_height}, got ship_sizes {sizes!r}"
            )
        values = self.values
        if type(values) is not tuple or len(values) != len(sizes):
            raise ValueError(
                f"want ship_values for {len(sizes)} ships, got {self.ship_values!r}"
            )
        for value in values:
            _check_number("value in ship_values", value)

    @property
    def num_squares(self) -> int:
        """Squares of one board."""
        return self.board_width * self.board_height

    @cached_property
    def values(self) -> Sequence[float]:
        """`ship_values`, or what they are by default."""
        if self.ship_values is None:
            return (1.0,) * len(self.ship_sizes)
        return self.ship_values

    @cached_property
    def most_damage(self) -> float:
        """The value of the ships that `num_shots` shots can sink at most."""
        ships = list(zip(self.ship_sizes, self.values, strict=True))
        choices = (c for k in range(len(ships) + 1) for c in combinations(ships, k))
        return max(
            math.fsum(value for _, value in sunk)
            for sunk in choices
            if sum(size for size, _ in sunk) <= self.num_shots
        )

    @cached_property
    def placements(self) -> dict[int, dict[int, int]]:
        """By size of a ship: the squares that each placement covers, in order."""
        return {size: dict(self._placements(size)) for size in set(self.ship_sizes)}

    @cached_property
    def squares(self) -> dict[int, tuple[int, ...]]:
        """The squares of each ship that can be placed, as numbers."""
        squares = range(self.num_squares)
        return {
            ship: tuple(square for square in squares if ship >> square & 1)
            for placements in self.placements.values()
            for ship in placements.values()
        }

    def ships(self, state: State, seat: int) -> list[int]:
        """The squares of each ship that a seat has placed."""
        own = zip(self.ship_sizes, state.placed[seat::2], strict=False)
        return [self.placements[size][action] for size, action in own]

    def can_place(self, sizes: Sequence[int], taken: int) -> bool:
        """Whether ships of these sizes fit on the squares that are not taken."""
        if not sizes:
            return True
        return any(
            self.can_place(sizes[1:], taken | squares)
            for squares in self.placements[sizes[0]].values()
            if not squares & taken
        )

    def outcomes(self, ships: Sequence[int], shots: Sequence[int]) -> str:
        """What the other seat is told of its shots at these ships, in order."""
        fired, told = 0, []
        ship_at = {square: ship for ship in ships for square in self.squares[ship]}
        for square in shots:
            fired |= 1 << square
            hit = ship_at.get(square)
            told.append(MISS if hit is None else HIT if hit & ~fired else SUNK)
        return "".join(told)

    def is_sunk(self, state: State, seat: int) -> list[bool]:
        """Of each ship that a seat has placed, whether it is lost."""
        fired = {*state.shots[1 - seat :: 2]}
        return [fired.issuperset(self.squares[s]) for s in self.ships(state, seat)]

    def is_over(self, state: State) -> bool:
        """Whether all shots are fired or a seat has lost all ships."""
        num_ships = len(self.ship_sizes)
        if len(state.placed) < 2 * num_ships:
            return False
        if len(state.shots) == 2 * self.num_shots:
            return True
        return all(self.is_sunk(state, len(state.shots) % 2))  # of who was shot at last

    def square_name(self, square: int) -> str:
        """Column and row, such as "b2"."""
        row, column = divmod(square, self.board_width)
        return f"{'abcdefghij'[column]}{row + 1}"

    def placement_name(self, squares: int) -> str:
        """Both ends of a ship, such as "b2-d2"; of a ship of one square, that square."""
        first = self.square_name((squares & -squares).bit_length() - 1)
        last = self.square_name(squares.bit_length() - 1)
        return first if first == last else f"{first}-{last}"

    def _placements(self, size: int) -> Iterator[tuple[int, int]]:
        width, height, n = self.board_width, self.board_height, self.num_squares
        for square in range(n):
            if square % width + size <= width:
                yield n + square, ((1 << size) - 1) << square
        for square in range(n):
            if 1 < size <= height - square // width:
                column = sum(1 << width * row for row in range(size))
                yield 2 * n + square, column << square


def _check_number(name: str, value: object) -> None:
    if type(value) not in (int, float) or not 0 <= value <= 1e6:  # type: ignore[operator]
        raise ValueError(f"want a number {name} from 0 to 1e6, got {value!r}")
