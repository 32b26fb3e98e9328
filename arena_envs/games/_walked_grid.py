"""The square grid of speaker and listener, walked cell by cell."""

from collections.abc import Sequence

MOVES = ("up", "down", "left", "right", "stay")
STEPS = ((0, 1), (0, -1), (-1, 0), (1, 0), (0, 0))  # column and row


class Cells:
    """The cells of a square grid, numbered by rows from a1 on.

    Attributes:
        start: the cell in the middle.
        exits: legal moves, by cell.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.start = size // 2 * (size + 1)
        self.exits = [self._exits(cell) for cell in range(size**2)]

    def after(self, cell: int, move: int) -> int:
        """The cell after a legal move."""
        column, row = STEPS[move]
        return cell + column + row * self._size

    def distance(self, cell: int) -> int:
        """Number of moves from the start to a cell."""
        (row, column), (to_row, to_column) = (
            divmod(each, self._size) for each in (self.start, cell)
        )
        return abs(row - to_row) + abs(column - to_column)

    def name(self, cell: int) -> str:
        """Letter of the column and number of the row, such as "a1"."""
        row, column = divmod(cell, self._size)
        return f"{'abcdefghi'[column]}{row + 1}"

    def names(self, cells: Sequence[int]) -> str:
        """The names of cells, with commas between them."""
        return ", ".join(map(self.name, cells))

    def _exits(self, cell: int) -> tuple[int, ...]:
        row, column = divmod(cell, self._size)
        inside = range(self._size)
        return tuple(
            move
            for move, (right, up) in enumerate(STEPS)
            if column + right in inside and row + up in inside
        )
