"""Parts of Battleship: what its players read, and the same as numbers."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from arena_envs.games._battleship_board import HIT, MISS, SUNK, Board, State
from arena_envs.games._words import counted

LETTERS = "ABCDE"  # of the ships


def text(board: Board, state: State, seat: int) -> str:
    """What a seat sees: whose turn it is, its shots and its own ships."""
    lines = [f"You are player_{seat}. {_now(board, state, seat)}"]
    if len(state.placed) == 2 * len(board.ship_sizes):
        lines += _shots(board, state, seat)
    lines.append("Your ships (letters; small where hit) and misses (m):")
    return "\n".join([*lines, *_grid(board, _own_ships(board, state, seat))])


def features(board: Board, state: State, seat: int) -> NDArray[np.float32]:
    """Planes of squares, then whose turn it is, ships placed and shots fired.

    Planes: each own ship; shots of the other seat, by time; own shots that missed, hit
    and hit a ship that is sunk; own shots by time (the share of all shots fired by then).
    """
    n, num_ships = board.num_squares, len(board.ship_sizes)
    planes = np.zeros((num_ships + 5, n), np.float32)
    for plane, ship in zip(planes, board.ships(state, seat), strict=False):
        plane[list(board.squares[ship])] = 1
    own, other = state.shots[seat::2], state.shots[1 - seat :: 2]
    times = np.arange(1, board.num_shots + 1, dtype=np.float32) / board.num_shots
    planes[num_ships, list(other)] = times[: len(other)]
    told = board.outcomes(board.ships(state, 1 - seat), own)
    latest = dict(zip(own, told, strict=True))
    rows = [num_ships + 1 + (MISS, HIT, SUNK).index(told) for told in latest.values()]
    planes[rows, list(latest)] = 1
    planes[num_ships + 4, list(own)] = times[: len(own)]
    over = board.is_over(state)
    turn = (len(state.placed) + len(state.shots)) % 2
    rest = [
        *(not over and turn == seat, not over and turn != seat, over, seat),
        *(len(state.placed[s::2]) / num_ships for s in (seat, 1 - seat)),
        *(len(shots) / board.num_shots for shots in (own, other)),
    ]
    return np.concatenate([planes.ravel(), np.array(rest, np.float32)])


def rules(board: Board, seat: int) -> str:
    """What a seat is told before the first turn."""
    width, height = board.board_width, board.board_height
    letters = "abcdefghij"
    sizes = ", ".join(map(str, board.ship_sizes))
    ship = board.placement_name(
        next(iter(board.placements[max(board.ship_sizes)].values()))
    )
    shots = counted(board.num_shots, "shot")
    again = "may" if board.allow_repeated_shots else "may not"
    return (
        f"This is Battleship. Each player has a board of {counted(width, 'column')}, a to "
        f"{letters[width - 1]}, and {counted(height, 'row')}, 1 to {height}, and hides "
        f"{counted(len(board.ship_sizes), 'ship')} of length {sizes} on it, each in a row "
        "or column. Ships may touch but not overlap. First the players place their ships in "
        "turn, one at a time in this order; nobody sees the other's. A placement is "
        f'written as the first and last square, such as "{ship}". Then they shoot in turn, from player_0 on, {shots} '
        f'each. A shot is written as a square, such as "{board.square_name(0)}", and you '
        f"{again} shoot at a square again. The shooter is told whether the shot missed, "
        "hit a ship, or hit a ship all of whose squares are now hit, which is sunk. The "
        "game ends when all shots are fired or all ships of a player are sunk. "
        f"{_score(board)}"
    )


def _score(board: Board) -> str:
    values = [f"{value:.10g}" for value in board.values]
    worth = f"Every sunk ship counts {values[0]}."
    if len(set(values)) > 1:
        worth = f"The ships count {', '.join(values)} when sunk, in the order above."
    if board.loss_multiplier == 1:
        return f"{worth} Your score is the count of the ships you sank less those you lost."
    return (
        f"{worth} Your score is the count of the ships you sank less "
        f"{board.loss_multiplier:.10g} times that of those you lost."
    )


def _now(board: Board, state: State, seat: int) -> str:
    if board.is_over(state):
        return "The game is over."
    if (len(state.placed) + len(state.shots)) % 2 != seat:
        return f"player_{1 - seat} is to move."
    num_placed = len(state.placed) // 2
    if num_placed == len(board.ship_sizes):
        return "You are to move: shoot."
    size = board.ship_sizes[num_placed]
    return f"You are to move: place your ship {LETTERS[num_placed]} of size {size}."


def _shots(board: Board, state: State, seat: int) -> Iterator[str]:
    """What both seats have shot, and what came of the own shots."""
    own, other = state.shots[seat::2], state.shots[1 - seat :: 2]
    lost, sunk = (sum(board.is_sunk(state, s)) for s in (seat, 1 - seat))
    left, others = board.num_shots - len(own), board.num_shots - len(other)
    num_ships = len(board.ship_sizes)
    yield f"Shots left: you {left}, player_{1 - seat} {others}."
    yield (
        f"Ships sunk: yours {lost} of {num_ships}, "
        f"player_{1 - seat}'s {sunk} of {num_ships}."
    )
    yield "Your shots (H hit, S hit that left its ship sunk, M miss):"
    marks, hits = ["."] * board.num_squares, []
    told = board.outcomes(board.ships(state, 1 - seat), own)
    for square, outcome in zip(own, told, strict=True):
        marks[square] = outcome  # the last shot at a square counts
        if outcome != MISS:
            sinking = " sunk" if outcome == SUNK else ""
            hits.append(f"{board.square_name(square)}{sinking}")
    yield from _grid(board, marks)
    yield f"Your hits in order: {', '.join(hits) or 'none'}."


def _own_ships(board: Board, state: State, seat: int) -> Sequence[str]:
    """A mark for each square: the letter of the ship."""
    marks = ["."] * board.num_squares
    for letter, ship in zip(LETTERS, board.ships(state, seat), strict=False):
        for square in board.squares[ship]:
            marks[square] = letter
    for square in state.shots[1 - seat :: 2]:
        marks[square] = "m" if marks[square] in ".m" else marks[square].lower()
    return marks


def _grid(board: Board, marks: Sequence[str]) -> Iterator[str]:
    width, room = board.board_width, len(str(board.board_height))
    yield f"{'':{room}} {' '.join('abcdefghij'[:width])}"
    for row in range(board.board_height):
        line = marks[row * width : (row + 1) * width]
        yield f"{row + 1:>{room}} {' '.join(line)}"
