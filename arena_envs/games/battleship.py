"""Battleship: find and sink ships that the other player has hidden on a board.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("battleship-v0")`; parameters: see `Battleship`       |
| Agents      | `player_0` and `player_1`                                              |
| Kind        | competitive, imperfect information, zero-sum; mixed and not zero-sum   |
|             | if `loss_multiplier` is not 1                                          |
| Actions     | `Discrete(3WH)` on W x H squares: shots "a1", "b1" to "d4", then ships |
|             | across, "a1-c1", and ships down, "a1-a3", by their first square        |
| Rewards     | at the end: value of the ships sunk, less that of the ships lost       |
| Length      | at most 2 turns per ship and 2 per shot: 24 by default; 23.739 on      |
|             | average of 2,000 random games (seed 0)                                 |
| Known value | 2 x 2 squares, one ship of size 2, 3 shots: 5/16 for `player_0`; there |
|             | uniform play has 5/36 and NashConv 1/2                                 |
| Source      | traditional; OpenSpiel's game is by G. Farina                          |

In turn, both players place ships of the same sizes, one at a time, unseen by the other. Ships
lie along a row or a column and may touch. Then the players shoot at each other's boards in
turn, `num_shots` shots each. The shooter is told "miss", "hit", or "sunk" if no square of
the ship is left, but not which ship it was. The episode ends when all shots are fired or a
player has lost all ships. A ship sunk pays its value to the shooter and costs its owner
`loss_multiplier` times its value. Actions, seats and rules are
OpenSpiel's; our default board is smaller and a square cannot be shot at again.
"""

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, compress
from typing import Any, NamedTuple

from arena_envs.game import (
    TERMINAL,
    BaseGame,
    IllegalAction,
    Kind,
    Vector,
    check_int,
    check_number,
    filled,
    fold,
    np,
    param,
)
from arena_envs.scenes.shapes import Cell, Grid, Shapes, board_grid, seat_cell

MISS, HIT, SUNK = "MHS"
MAX_WEIGHT = 1_000_000


class State(NamedTuple):
    """Placements and then shots, each of both seats in turn."""

    placed: tuple[int, ...] = ()
    shots: tuple[int, ...] = ()


# sets of squares are the bits of an integer; squares are numbered row by row
NUM_DRAWS = 10  # fleets drawn, one of which is chosen

Fleet = dict[int, int]  # placement of each ship, by its number


class Option(NamedTuple):
    """A placement of a ship of this size, and its squares."""

    size: int
    action: int
    squares: int


def draw_fleet(
    board: "Battleship", shots: Sequence[int], outcomes: str, rng: random.Random
) -> list[int]:
    """Random placements of all ships that fit the outcomes of the shots, about uniform.

    One of `NUM_DRAWS`, weighted by how many options there were on the way to it. There
    is one way only to each fleet, so that the weights are right but for dead ends.
    """
    hits = {
        1 << s for s, outcome in zip(shots, outcomes, strict=True) if outcome != MISS
    }
    search = _Search(board, fitting(board, shots, outcomes), hits, rng)
    draws = [search.complete({}, 0) for _ in range(NUM_DRAWS)]
    fleets, weights = zip(*(draw for draw in draws if draw), strict=True)
    fleet: Fleet = rng.choices(fleets, weights)[0]
    return [fleet[ship] for ship in range(len(fleet))]


def fitting(board: "Battleship", shots: Sequence[int], outcomes: str) -> list[Option]:
    """The placements of one ship that fit the outcomes of the shots at their squares.

    As ships do not overlap, they fit together if they fit one by one and cover all hits.
    """
    fired = sum({1 << square for square in shots})
    options = []
    for size, placements in board.placements.items():
        for action, squares in placements.items():
            if not squares & fired or _fits(board, squares, shots, outcomes):
                options.append(Option(size, action, squares))
    return options


def _fits(
    board: "Battleship", squares: int, shots: Sequence[int], shot_outcomes: str
) -> bool:
    here = [i for i, square in enumerate(shots) if squares >> square & 1]
    if any(shot_outcomes[i] == MISS for i in here):
        return False
    outcomes = board.outcomes([squares], [shots[i] for i in here])
    return outcomes == "".join(shot_outcomes[i] for i in here)


class _Search:
    """Random search with return from dead ends; most constrained hits first."""

    def __init__(
        self,
        board: "Battleship",
        options: list[Option],
        hits: set[int],
        rng: random.Random,
    ) -> None:
        self.sizes = board.ship_sizes
        self.rng = rng
        self.all = options
        self.covering = {h: [o for o in options if o.squares & h] for h in sorted(hits)}

    def complete(self, fleet: Fleet, occupied: int) -> tuple[Fleet, float] | None:
        """A fleet with these ships and its weight; None if there is none."""
        if len(fleet) == len(self.sizes):
            done = all(hit & occupied for hit in self.covering)
            return (fleet, 1.0) if done else None
        options = self._options(fleet, occupied)
        self.rng.shuffle(options)
        for ship, option in options:
            with_ship = {**fleet, ship: option.action}
            if completion := self.complete(with_ship, occupied | option.squares):
                return completion[0], completion[1] * len(options)
        return None

    def _options(self, fleet: Fleet, occupied: int) -> list[tuple[int, Option]]:
        """Ships that can cover a hit next, or without an open hit the next ship."""

        def fitting(options: list[Option], sizes: set[int]) -> list[Option]:
            return [o for o in options if o.size in sizes and not o.squares & occupied]

        free = [ship for ship in range(len(self.sizes)) if ship not in fleet]
        sizes = {self.sizes[ship] for ship in free}
        still_open = [hit for hit in self.covering if not hit & occupied]
        if len(still_open) > sum(self.sizes[ship] for ship in free):
            return []
        if still_open:
            groups = (fitting(self.covering[hit], sizes) for hit in still_open)
            group = min(groups, key=len)
            return [(s, o) for o in group for s in free if self.sizes[s] == o.size]
        return [(free[0], o) for o in fitting(self.all, {self.sizes[free[0]]})]


LETTERS = "ABCDE"  # of the ships


def _now(board: "Battleship", state: State, seat: int) -> str:
    if board.is_over(state):
        return "The game is over."
    if (len(state.placed) + len(state.shots)) % 2 != seat:
        return f"player_{1 - seat} is to move."
    num_placed = len(state.placed) // 2
    if num_placed == len(board.ship_sizes):
        return "You are to move: shoot."
    size = board.ship_sizes[num_placed]
    return f"You are to move: place your ship {LETTERS[num_placed]} of size {size}."


def _shots(board: "Battleship", state: State, seat: int) -> Iterator[str]:
    """The shots of both seats, and the outcomes of the own shots."""
    own_shots, other_shots = state.shots[seat::2], state.shots[1 - seat :: 2]
    lost, sunk = (sum(board.is_sunk(state, s)) for s in (seat, 1 - seat))
    shots_left, shots_left_other = (
        board.num_shots - len(own_shots),
        board.num_shots - len(other_shots),
    )
    num_ships = len(board.ship_sizes)
    yield f"Shots left: you {shots_left}, player_{1 - seat} {shots_left_other}."
    yield (
        f"Ships sunk: yours {lost} of {num_ships}, "
        f"player_{1 - seat}'s {sunk} of {num_ships}."
    )
    yield "Your shots (H hit, S hit that left its ship sunk, M miss):"
    marks, hits = ["."] * board.num_squares, []
    outcomes = board.outcomes(board.ships(state, 1 - seat), own_shots)
    for square, outcome in zip(own_shots, outcomes, strict=True):
        marks[square] = outcome  # the last shot at a square counts
        if outcome != MISS:
            sinking = " sunk" if outcome == SUNK else ""
            hits.append(f"{board.square_name(square)}{sinking}")
    yield from _grid(board, marks)
    yield f"Your hits in order: {', '.join(hits) or 'none'}."


def _own_ships(board: "Battleship", state: State, seat: int) -> Sequence[str]:
    """A mark for each square: the letter of the ship."""
    marks = ["."] * board.num_squares
    for letter, ship in zip(LETTERS, board.ships(state, seat), strict=False):
        for square in board.squares[ship]:
            marks[square] = letter
    for square in state.shots[1 - seat :: 2]:
        marks[square] = "m" if marks[square] in ".m" else marks[square].lower()
    return marks


def _grid(board: "Battleship", marks: Sequence[str]) -> Iterator[str]:
    width, room = board.board_width, len(str(board.board_height))
    yield f"{'':{room}} {' '.join('abcdefghij'[:width])}"
    for row in range(board.board_height):
        line = marks[row * width : (row + 1) * width]
        yield f"{row + 1:>{room}} {' '.join(line)}"


SHOT = re.compile(r"(?:(?:shoot|fire)(?: at)? )?\[?([a-j])(10|[1-9])\]?")
ENDS = re.compile(r"(?:place )?([a-j])(10|[1-9])(?: ?- ?| to | |:|,)([a-j])(10|[1-9])")


@dataclass(frozen=True)
class Battleship(BaseGame[State, int]):
    """Battleship.

    Args:
        board_width: columns, 1 to 10.
        board_height: rows, 1 to 10.
        ship_sizes: squares of each ship, in the order of placement; 1 to 5 ships.
        ship_values: what each ship counts, from 0 on; None is 1 each.
        num_shots: of each player, at least 1.
        allow_repeated_shots: whether a square can be shot at again.
        loss_multiplier: weight of the ships lost, from 0 on.

    Raises:
        ValueError: a parameter is none of these, or the ships do not fit on the board, or
            there are more shots than squares where none can be shot at again.
    """

    board_width: int = param(4, 1, 10)
    board_height: int = param(4, 1, 10)
    ship_sizes: Sequence[int] = (2, 3)
    ship_values: Sequence[float] | None = None
    num_shots: int = param(
        10, 1, lambda game: 1000 if game.allow_repeated_shots else game.num_squares
    )
    allow_repeated_shots: bool = False
    loss_multiplier: float = param(1.0, 0, MAX_WEIGHT)

    first_state = State()
    num_players = 2
    max_chance_nodes = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_ships()

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
            check_number("value in ship_values", value, 0, MAX_WEIGHT)

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
        """The squares that each placement covers, in order, by size of the ship."""
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
        placements = zip(self.ship_sizes, state.placed[seat::2], strict=False)
        return [self.placements[size][action] for size, action in placements]

    def can_place(self, sizes: Sequence[int], occupied: int) -> bool:
        """Whether ships of these sizes fit on the squares that are not taken."""
        if not sizes:
            return True
        return any(
            self.can_place(sizes[1:], occupied | squares)
            for squares in self.placements[sizes[0]].values()
            if not squares & occupied
        )

    def outcomes(self, ships: Sequence[int], shots: Sequence[int]) -> str:
        """The outcomes of shots at these ships, in order, as the other seat hears them."""
        fired, outcomes = 0, []
        ship_at = {square: ship for ship in ships for square in self.squares[ship]}
        for square in shots:
            fired |= 1 << square
            hit = ship_at.get(square)
            outcomes.append(MISS if hit is None else HIT if hit & ~fired else SUNK)
        return "".join(outcomes)

    def is_sunk(self, state: State, seat: int) -> list[bool]:
        """Whether each ship that a seat has placed is lost."""
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

    @property
    def num_actions(self) -> int:
        return 3 * self.num_squares

    @property
    def kind(self) -> Kind:  # type: ignore[override]  # settable in BaseGame
        return "competitive" if self.zero_sum else "mixed"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # depends on a parameter
        return self.loss_multiplier == 1

    @property
    def min_return(self) -> float:
        return 0.0 - self.loss_multiplier * self.most_damage

    @property
    def max_return(self) -> float:
        return float(self.most_damage)

    @property
    def max_turns(self) -> int:
        # a player who has shot at all squares has sunk all ships, which ends the episode
        all_squares = (
            self.num_shots == self.num_squares and not self.allow_repeated_shots
        )
        return 2 * (len(self.ship_sizes) + self.num_shots) - all_squares

    def current_player(self, state: State) -> int:
        if self.is_over(state):
            return TERMINAL
        return (len(state.placed) + len(state.shots)) % 2

    def legal_actions(self, state: State) -> Sequence[int]:
        if len(state.placed) < 2 * len(self.ship_sizes):
            return self._legal_placements(state)
        if self.is_over(state):
            return ()
        squares = range(self.num_squares)
        if self.allow_repeated_shots:
            return squares
        own_shots = {*state.shots[len(state.shots) % 2 :: 2]}
        return [square for square in squares if square not in own_shots]

    def apply(self, state: State, action: int) -> State:
        if len(state.placed) < 2 * len(self.ship_sizes):
            return State((*state.placed, action))
        return State(state.placed, (*state.shots, action))

    def returns(self, state: State) -> Sequence[float]:
        if not self.is_over(state):
            return (0.0, 0.0)
        lost = [sum(compress(self.values, self.is_sunk(state, s)), 0.0) for s in (0, 1)]
        weight = self.loss_multiplier
        return (lost[1] - weight * lost[0], lost[0] - weight * lost[1])

    def observe(self, state: State, seat: int) -> str:
        lines = [f"You are player_{seat}. {_now(self, state, seat)}"]
        if len(state.placed) == 2 * len(self.ship_sizes):
            lines += _shots(self, state, seat)
        lines.append("Your ships (letters; small where hit) and misses (m):")
        return "\n".join([*lines, *_grid(self, _own_ships(self, state, seat))])

    def information_state(self, state: State, seat: int) -> Any:
        """Own placements, number of all placements, all shots, outcomes of the own."""
        outcomes = self.outcomes(self.ships(state, 1 - seat), state.shots[seat::2])
        return (state.placed[seat::2], len(state.placed), state.shots, outcomes)

    def features(self, state: State, seat: int) -> Vector:
        """Planes of squares, then whose turn it is, ships placed and shots fired.

        Planes: each own ship; shots of the other seat, by time; own shots that missed, hit
        and hit a ship that is sunk; own shots by time (the share of all shots fired by then).
        """
        n, num_ships = self.num_squares, len(self.ship_sizes)
        planes = np.zeros((num_ships + 5, n), np.float32)
        for plane, ship in zip(planes, self.ships(state, seat), strict=False):
            plane[list(self.squares[ship])] = 1
        own_shots, other_shots = state.shots[seat::2], state.shots[1 - seat :: 2]
        times = np.arange(1, self.num_shots + 1, dtype=np.float32) / self.num_shots
        planes[num_ships, list(other_shots)] = times[: len(other_shots)]
        outcome = self.outcomes(self.ships(state, 1 - seat), own_shots)
        latest = dict(zip(own_shots, outcome, strict=True))
        rows = [
            num_ships + 1 + (MISS, HIT, SUNK).index(outcome)
            for outcome in latest.values()
        ]
        planes[rows, list(latest)] = 1
        planes[num_ships + 4, list(own_shots)] = times[: len(own_shots)]
        over = self.is_over(state)
        turn = (len(state.placed) + len(state.shots)) % 2
        facts = [
            not over and turn == seat,
            not over and turn != seat,
            over,
            seat,
            *(len(state.placed[s::2]) / num_ships for s in (seat, 1 - seat)),
            *(len(shots) / self.num_shots for shots in (own_shots, other_shots)),
        ]
        return np.concatenate([planes.ravel(), np.array(facts, np.float32)])

    def action_text(self, state: State, action: int) -> str:
        if len(state.placed) == 2 * len(self.ship_sizes):
            return self.square_name(action)
        return self.placement_name(self._next_placements(state)[action])

    def parse(self, state: State, text: str) -> int:
        """Reads "shoot at b2" for "b2", and the ends of a ship in any order."""
        answer, legal = fold(text), self.legal_actions(state)
        names = {self.action_text(state, action): action for action in legal}
        if match := SHOT.fullmatch(answer):
            name = match[1] + match[2]
        elif match := ENDS.fullmatch(answer):
            ends = [(match[1], int(match[2])), (match[3], int(match[4]))]
            name = "-".join(f"{column}{row}" for column, row in sorted(ends))
        else:
            name = answer
        if name not in names:
            raise IllegalAction(f"want one of {list(names)}, got {text[:80]!r}")
        return names[name]

    def rules(self, seat: int) -> str:
        ship, *_ = self.placements[max(self.ship_sizes)].values()
        return filled(
            "battleship",
            self,
            last="abcdefghij"[self.board_width - 1],
            num_ships=len(self.ship_sizes),
            ship=self.placement_name(ship),
            num_values=len(set(self.values)),
            worths=[f"{value:.10g}" for value in self.values],
            worth=self.values[0],
            is_plain=self.loss_multiplier == 1,
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Places the other's ships anew, as all shots at them allow."""
        shots, placed = state.shots[seat::2], list(state.placed)
        outcomes = self.outcomes(self.ships(state, 1 - seat), shots)
        num_placed = len(placed[1 - seat :: 2])
        placed[1 - seat :: 2] = draw_fleet(self, shots, outcomes, rng)[:num_placed]
        return State(tuple(placed), state.shots)

    def _legal_placements(self, state: State) -> list[int]:
        seat, num_placed = len(state.placed) % 2, len(state.placed) // 2
        occupied = sum(self.ships(state, seat))
        return [
            action
            for action, squares in self._next_placements(state).items()
            if not squares & occupied
            and self.can_place(self.ship_sizes[num_placed + 1 :], occupied | squares)
        ]

    def _next_placements(self, state: State) -> dict[int, int]:
        return self.placements[self.ship_sizes[len(state.placed) // 2]]


SHOTS = {MISS: Cell("o", "gone"), HIT: Cell("x", "red"), SUNK: Cell("#", "dark")}


def scene(game: Battleship, state: State, viewer: int | None) -> Shapes:
    """The fleets that the viewer sees, and the shots at those that it does not see."""
    return [_board(game, state, seat, viewer in (None, seat)) for seat in (0, 1)]


def _board(game: Battleship, state: State, seat: int, shows_ships: bool) -> Grid:
    """The board of a seat, with the other seat's shots."""
    ships, shots = game.ships(state, seat), state.shots[1 - seat :: 2]
    squares = [Cell()] * game.num_squares
    if shows_ships:
        for name, ship in zip(LETTERS, ships, strict=False):
            for square in game.squares[ship]:
                squares[square] = seat_cell(seat, name)
    for square, outcome in zip(shots, game.outcomes(ships, shots), strict=True):
        cell = SHOTS[outcome]
        name = squares[square].text if shows_ships and outcome != MISS else ""
        squares[square] = cell._replace(text=name or cell.text)
    sunk, fired = sum(game.is_sunk(state, seat)), len(shots)
    title = f"player_{seat}: {sunk} of {len(game.ship_sizes)} ships sunk, "
    title += f"{fired} of {game.num_shots} shots received"
    return board_grid(squares, game.board_width, title)
