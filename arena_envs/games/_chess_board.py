"""Chess positions as tuples, and moves as numbers, over the package `chess`."""

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import chess


def _all_moves() -> Iterator[chess.Move]:
    """What a queen or a knight can do on an empty board; each promotion of a pawn."""
    for start in chess.SQUARES:
        for end in chess.SQUARES:
            files = abs(chess.square_file(start) - chess.square_file(end))
            ranks = abs(chess.square_rank(start) - chess.square_rank(end))
            straight = start != end and (files == ranks or 0 in (files, ranks))
            if straight or {files, ranks} == {1, 2}:
                yield chess.Move(start, end)
            ahead = (chess.square_rank(start), chess.square_rank(end))
            if files <= 1 and ahead in ((6, 7), (1, 0)):
                for piece in (chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN):
                    yield chess.Move(start, end, piece)


MOVES = tuple(_all_moves())  # by action
ACTIONS = {move.uci(): action for action, move in enumerate(MOVES)}
_ACTIONS = {(m.from_square, m.to_square, m.promotion): a for a, m in enumerate(MOVES)}


class Position(NamedTuple):
    """What decides which moves are legal; the repetition rule compares these positions.

    The first eight fields are squares as bits, a1 the lowest; `castling` are the rooks
    with which castling may still be possible; `en_passant` is the square onto which a
    pawn can be captured legally, or -1.
    """

    pawns: int
    knights: int
    bishops: int
    rooks: int
    queens: int
    kings: int
    white: int
    black: int
    white_to_move: bool
    castling: int
    en_passant: int


def position_of(board: chess.Board) -> Position:
    """The position on a board."""
    black, white = board.occupied_co
    return Position(
        board.pawns,
        board.knights,
        board.bishops,
        board.rooks,
        board.queens,
        board.kings,
        white,
        black,
        board.turn,
        board.clean_castling_rights(),
        (board.ep_square or -1) if board.has_legal_en_passant() else -1,
    )


def board_of(position: Position) -> chess.Board:
    """A new board with a position, without clocks and history."""
    board = chess.Board(None)
    board.pawns, board.knights, board.bishops = position[:3]
    board.rooks, board.queens, board.kings = position[3:6]
    board.occupied_co = [position.black, position.white]
    board.occupied = position.white | position.black
    board.turn = position.white_to_move
    board.castling_rights = position.castling
    board.ep_square = None if position.en_passant < 0 else position.en_passant
    return board


@cache
def start_of(fen: str) -> tuple[Position, int, int]:
    """The position of a FEN, its fifty-move clock and the turns before it."""
    board = chess.Board(fen)
    return position_of(board), board.halfmove_clock, board.ply()


@lru_cache(maxsize=10_000)
def legal_moves(position: Position) -> tuple[int, ...]:
    """The actions of the moves that are legal in a position, ascending."""
    return tuple(sorted(map(action_of, board_of(position).generate_legal_moves())))


def action_of(move: chess.Move) -> int:
    """The action of a move; -1 for what is none, such as a null move."""
    return _ACTIONS.get((move.from_square, move.to_square, move.promotion), -1)
