"""The six games that stand for all where a claim does not depend on the game.

Claims about a game itself (`tests/games`) run on every registered id.
"""

REPRESENTATIVE: dict[str, tuple[str, dict[str, int]]] = {
    "perfect information": ("tic_tac_toe-v0", {}),
    "hidden cards, chance in mid-game": ("leduc_poker-v0", {}),
    "simultaneous": ("goofspiel-v0", {}),
    "cooperative": ("mini_hanabi-v0", {}),
    "language": ("bargaining-v1", {}),
    "three seats": ("kuhn_poker-v0", {"num_players": 3}),
}
"""What a game stands for: its id and parameters. None needs an extra."""
