"""What is said of the rules of chess and of the end of a game."""

CHECKMATE = "checkmate"
ENDINGS = {
    CHECKMATE: "Checkmate: {winner} has won.",
    "stalemate": "Stalemate: the game is a draw.",
    "material": "Too little material for a checkmate: the game is a draw.",
    "fifty": "Fifty moves of each side without a capture or a pawn's move: a draw.",
    "repetition": "Third occurrence of this position: a draw.",
    "length": "The last turn has been played: the game is a draw.",
}

RULES = (
    "This is chess; you are {color}. player_0 is White, with the pieces KQRBNP, whose pawns "
    "go up the board to rank 8; player_1 is Black, with the pieces kqrbnp, whose pawns go "
    "down to rank 1. {first} moves first. In turn, each player moves one piece and captures a "
    "piece of the other player that stands on its new square. A king (K) moves one square in "
    "any direction, a rook (R) along ranks and files, a bishop (B) along diagonals, a queen "
    "(Q) like a rook or a bishop, none of them through other pieces; a knight (N) jumps two "
    "squares along a rank or a file and one aside. A pawn (P) moves one square ahead, or two "
    "from rank 2 (White) or 7 (Black), to empty squares, and captures one square diagonally "
    "ahead. A pawn that has just moved two squares can be captured by a pawn as if it had "
    "moved one (en passant). On the last rank a pawn becomes a queen, rook, bishop or knight. "
    "Castling: if the king and a rook have not moved yet, no piece stands between them and no "
    "square on the king's way is attacked, its own included, the king moves two squares "
    "towards the rook, which jumps over it. A move that leaves the own king attacked is "
    "illegal. A player who has no legal move loses if the king is attacked (checkmate); if it "
    "is not, the game is a draw (stalemate). It is also a draw when neither side has the "
    "material for a checkmate, when a position occurs for the third time, after fifty moves "
    "of each side without a capture or a pawn's move, and after {turns} of both players "
    "together. The FEN tells the castlings and the en passant capture that are left, and the "
    "turns since the last capture or pawn's move. A move is written as the two squares, and "
    'the piece that a pawn becomes: "e2e4", "e1g1" to castle, "e7e8q". Your score is 1 if you '
    "win, -1 if you lose and 0 for a draw."
)
