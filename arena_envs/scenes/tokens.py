"""Scenes of nim and of dots and boxes."""

from arena_envs.games.dots_and_boxes import DotsAndBoxes, grid_of
from arena_envs.games.dots_and_boxes import State as DotsState
from arena_envs.games.nim import Nim
from arena_envs.games.nim import State as NimState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Grid, Scene, Track, seat_tone


def nim(game: Nim, state: NimState, viewer: int | None) -> Scene:
    """The piles, with what was taken in gray."""
    piles = [
        Track(
            f"pile {number}: {left} of {size}",
            [Cell("o", "green")] * left + [Cell("", "gone")] * (size - left),
        )
        for number, (left, size) in enumerate(
            zip(state.piles, game.pile_sizes, strict=True), 1
        )
    ]
    return Scene(turn_title(game, state, viewer), piles)


def dots_and_boxes(game: DotsAndBoxes, state: DotsState, viewer: int | None) -> Scene:
    """Dots, the lines that are drawn, and who owns which box."""
    num_rows, num_columns = game.num_rows, game.num_cols
    num_lines = len(grid_of(num_rows, num_columns).names)
    drawn = [
        Cell(tone="dark") if state.lines >> i & 1 else Cell() for i in range(num_lines)
    ]
    upright = drawn[(num_rows + 1) * num_columns :]
    dot, rows = Cell(tone="gone"), []
    for row in range(num_rows + 1):
        line = [dot]
        for lying in drawn[row * num_columns : (row + 1) * num_columns]:
            line += [lying, dot]
        rows.append(line)
        if row < num_rows:
            first = row * (num_columns + 1)
            line = [upright[first]]
            for column in range(num_columns):
                box = _box(state, row * num_columns + column)
                line += [box, upright[first + column + 1]]
            rows.append(line)
    left = [str(i // 2 + 1) if i % 2 == 0 else "" for i in range(len(rows))]
    top = [chr(97 + i // 2) if i % 2 == 0 else "" for i in range(len(rows[0]))]
    first_boxes, second_boxes = (boxes.bit_count() for boxes in state.boxes)
    title = f"boxes: player_0 {first_boxes}, player_1 {second_boxes}"
    board = Grid(rows, title, left, top, narrow=True)
    return Scene(turn_title(game, state, viewer), [board])


def _box(state: DotsState, box: int) -> Cell:
    for seat, boxes in enumerate(state.boxes):
        if boxes >> box & 1:
            return Cell(str(seat), seat_tone(seat))
    return Cell()
