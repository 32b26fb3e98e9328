"""Chess: the rules of FIDE, with draws that need not be claimed.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("chess-v0", max_plies=200)`; `fen` for other starts   |
| Agents      | `player_0` is White, `player_1` is Black                               |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(1968)`: moves in UCI notation, "e2e4", "e7e8q"               |
| Rewards     | at the end: 1 to the winner, -1 to the loser; 0 for a draw             |
| Length      | 4 to `max_plies` turns; mean of 100 random games (seed 0): 195.06      |
| Known value | unknown; lines of 1 to 4 turns: 20, 400, 8902, 197281                  |
| Source      | Laws of Chess of FIDE (2023), but draws are automatic                  |

Needs the package `chess`: in a clone `pip install '.[chess]'`. (Its licence is the GPL-3.0.)

The usual rules, with castling, en passant and promotion. The game ends with checkmate, and
in a draw with stalemate, with too little material for any checkmate (lone kings, with one
knight or with bishops on squares of one colour), when a position occurs for the third time,
after 100 turns without a capture or a pawn's move (the fifty-move rule) and after
`max_plies` turns. `max_plies` is at most 11,800; the fifty-move rule ends every game by then.

`fen` sets another first position, such as an endgame that White wins,
`"8/8/8/4k3/8/8/8/KQ6 w - - 0 1"`. The game must not be over in it. If Black is to move,
`player_1` starts.

An action is one of the 1792 moves that a queen or a knight can make on an empty board
(castling is the king's move) or one of 176 promotions, ordered by from-square, to-square (a1,
b1, ... h8) and piece (knight, bishop, rook, queen). Actions and boards are not turned round
for Black. Replies may also be in SAN ("Nf3", "exd5", "O-O", "e8=Q"). A reply that is a legal
move in UCI, in upper or lower case, is read as UCI: "B2c3" is the move from b2 to c3 if legal.

Of the 100 random games White wins four, Black wins one and 94 reach `max_plies`.

OpenSpiel's rules are the same, automatic draws included. But there actions have other
numbers, White is player 1, there is no `max_plies`, and a position in which a pin forbids an
en passant capture is not the one that returns later without that capture.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import chess

from arena_envs.game import (
    TERMINAL,
    IllegalAction,
    Vector,
    filled,
    np,
    param,
)
from arena_envs.games.kits.board import TwoPlayerGame
from arena_envs.scenes.shapes import Cell, Shapes, Table, board_grid, cells


def _all_moves() -> Iterator[chess.Move]:
    """All moves of a queen and a knight on an empty board, and each promotion of a pawn."""
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
    """A position as far as it decides which moves are legal; the repetition rule compares these.

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


CHECKMATE = "checkmate"
ENDINGS = {
    CHECKMATE: "Checkmate: {winner} has won.",
    "stalemate": "Stalemate: the game is a draw.",
    "material": "Too little material for a checkmate: the game is a draw.",
    "fifty": "Fifty moves of each side without a capture or a pawn's move: a draw.",
    "repetition": "Third occurrence of this position: a draw.",
    "length": "The last turn has been played: the game is a draw.",
}

MAX_PLIES = 11_800  # 96 moves of pawns and 30 captures, 8 of them both, times 100
COLORS = ("White", "Black")
MOVE_NUMBER = re.compile(r"^[0-9]{1,4}\.+\s*")


class State(NamedTuple):
    """A position and what the rules for draws need.

    Attributes:
        position: pieces, turn, castling and en passant.
        clock: turns since the last capture or move of a pawn.
        num_turns: turns of this episode.
        past: the earlier positions of this episode since then.
        ending: why the game is over, a key of `ENDINGS`, or empty.
    """

    position: Position
    clock: int = 0
    num_turns: int = 0
    past: tuple[Position, ...] = ()
    ending: str = ""


@dataclass(frozen=True)
class Chess(TwoPlayerGame[State]):
    """Chess.

    Args:
        max_plies: turns of both seats after which the game is a draw, 1 to 11,800.
        fen: the position at the start, in Forsyth-Edwards notation.

    Raises:
        ValueError: `max_plies` out of range, or `fen` is malformed, impossible or the
            position of a game that is over.
    """

    seat_tones = ("light", "dark")
    max_plies: int = param(200, 1, MAX_PLIES)
    fen: str = chess.STARTING_FEN

    num_actions = len(MOVES)
    is_spelled = True

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            valid = isinstance(self.fen, str) and chess.Board(self.fen).is_valid()
        except ValueError:
            valid = False
        if not valid:
            raise ValueError(f"want fen as the FEN of a position, got {self.fen!r}")
        if ending := self.initial_state().ending:
            raise ValueError(
                f"want fen as that of a game that goes on, got {self.fen!r} ({ending})"
            )

    @property
    def max_turns(self) -> int:
        return self.max_plies

    def initial_state(self) -> State:
        position, clock, _ = start_of(self.fen)
        return self._judged(board_of(position), State(position, clock))

    def current_player(self, state: State) -> int:
        if state.ending:
            return TERMINAL
        return 0 if state.position.white_to_move else 1

    def legal_actions(self, state: State) -> Sequence[int]:
        return () if state.ending else legal_moves(state.position)

    def apply(self, state: State, action: int) -> State:
        board, move = board_of(state.position), MOVES[action]
        resets = board.is_zeroing(move)
        board.push(move)
        after = State(
            position_of(board),
            0 if resets else state.clock + 1,
            state.num_turns + 1,
            () if resets else (*state.past, state.position),
        )
        return self._judged(board, after)

    def returns(self, state: State) -> Sequence[float]:
        if state.ending != CHECKMATE:
            return (0.0, 0.0)
        return (-1.0, 1.0) if state.position.white_to_move else (1.0, -1.0)

    def observe(self, state: State, seat: int) -> str:
        board = self._board(state)
        ranks = [
            f"{8 - row} {rank}" for row, rank in enumerate(str(board).splitlines())
        ]
        lines = [f"You are {COLORS[seat]}.", *ranks, "  a b c d e f g h"]
        lines.append(f"FEN: {board.fen()}")
        if state.ending:
            winner = COLORS[state.position.white_to_move]
            lines.append(ENDINGS[state.ending].format(winner=winner))
            return "\n".join(lines)
        mover = COLORS[not state.position.white_to_move]
        if drawing := self._repeating(state):
            lines.append(f"Third occurrence of a position, a draw, after: {drawing}")
        if board.is_check():
            lines.append(f"{mover} is in check.")
        turn = f"Turn {state.num_turns + 1} of at most {self.max_plies}: "
        to_move = mover == COLORS[seat]
        lines.append(turn + ("you are to move." if to_move else f"{mover} is to move."))
        return "\n".join(lines)

    def features(self, state: State, seat: int) -> Vector:
        """Twelve planes of squares (a1, b1, ... h8) and seventeen numbers.

        Planes: own pawns, knights, bishops, rooks, queens and king, then the other's.
        Numbers: castling to the king's and the queen's side, own and the other's; the file
        of an en passant capture, one-hot; being Black; being to move; the shares of the
        fifty-move rule and of `max_plies` that are used up; how often the position was
        there before, halved.
        """
        position = state.position
        sides = (position.white, position.black)[:: -1 if seat else 1]
        masks = [piece & side for side in sides for piece in position[:6]]
        squares = np.array(masks, "<u8").view(np.uint8)
        numbers = np.zeros(17, np.float32)
        corners = (chess.H1, chess.A1, chess.H8, chess.A8)
        for i, corner in enumerate(corners[2:] + corners[:2] if seat else corners):
            numbers[i] = position.castling >> corner & 1
        if position.en_passant >= 0:
            numbers[4 + chess.square_file(position.en_passant)] = 1
        numbers[12:] = (
            seat,
            self.current_player(state) == seat,
            state.clock / 100,
            state.num_turns / self.max_plies,
            state.past.count(position) / 2,
        )
        planes = np.unpackbits(squares, bitorder="little").astype(np.float32)
        return np.concatenate([planes, numbers])

    def action_text(self, state: State, action: int) -> str:
        return MOVES[action].uci()

    def parse(self, state: State, text: str) -> int:
        """Reads UCI ("e2e4") and SAN ("e4", "Nf3", "O-O", "e8=Q", "12... exd5")."""
        move, legal = text.strip(), self.legal_actions(state)
        action = ACTIONS.get(move.lower(), -1)
        if action not in legal and len(move) < 20:
            action = self._read_san(state, move)
        if action in legal:
            return action
        raise IllegalAction(
            f"want a legal move such as 'e2e4' or 'Nf3', got {text[:80]!r}"
        )

    def rules(self, seat: int) -> str:
        first = COLORS[self.current_player(self.initial_state())]
        return filled("chess", self, color=COLORS[seat], first=first)

    def _board(self, state: State) -> chess.Board:
        """A board that shows a state, with its clocks."""
        board, (_, _, ply) = board_of(state.position), start_of(self.fen)
        board.fullmove_number = (ply + state.num_turns) // 2 + 1
        board.halfmove_clock = state.clock
        return board

    def _judged(self, board: chess.Board, state: State) -> State:
        """The state, with the reason for its end if the game is over."""
        if not any(board.generate_legal_moves()):
            return state._replace(ending=CHECKMATE if board.is_check() else "stalemate")
        for ending, is_over in (
            ("material", board.is_insufficient_material()),
            ("fifty", state.clock >= 100),
            ("repetition", state.past.count(state.position) >= 2),
            ("length", state.num_turns >= self.max_plies),
        ):
            if is_over:
                return state._replace(ending=ending)
        return state

    def _repeating(self, state: State) -> str:
        """The moves after which a position occurs for the third time."""
        counts = Counter(state.past)
        if max(counts.values(), default=0) < 2:
            return ""
        after = ((a, self.apply(state, a)) for a in legal_moves(state.position))
        return ", ".join(MOVES[a].uci() for a, s in after if counts[s.position] >= 2)

    def _read_san(self, state: State, text: str) -> int:
        """The action that a text names in standard algebraic notation, or -1."""
        san = MOVE_NUMBER.sub("", text, count=1).rstrip("!?")
        san = san.replace("o", "O")  # castling
        try:
            return action_of(board_of(state.position).parse_san(san))
        except ValueError:
            return -1


PIECES = "PNBRQK"  # in the order of the fields of a position


def scene(game: Chess, state: State, viewer: int | None) -> Shapes:
    """The board from White's side; capital letters are White's pieces."""
    position = state.position
    squares = [Cell()] * 64
    for letter, places in zip(PIECES, position[:6], strict=True):
        for square in chess.scan_forward(places):
            is_white = position.white >> square & 1
            # small letters are Black's, as in a FEN
            symbol = letter if is_white else letter.lower()
            squares[square] = Cell(symbol, "light" if is_white else "dark", disc=True)
    title = "player_0 has White, player_1 has Black"
    board = board_grid(squares, 8, title, upwards=True)._replace(checkered=True)
    facts = [
        cells("turns", f"{state.num_turns} of {game.max_plies}"),
        cells("turns without capture or pawn", str(state.clock)),
    ]
    if state.ending:
        facts.append(cells("end", state.ending))
    return [board, Table("", (), facts)]
