"""The ids of our games, in alphabetical order, and then those of plug-ins."""

from arena_envs.registration import register, register_plugins

GAMES = "arena_envs.games"

register(
    "chess-v0",
    f"{GAMES}.chess:Chess",
    extra="chess",
    facts=("competitive", 2, "perfect"),
)
register("dots_and_boxes-v0", f"{GAMES}.dots_and_boxes:DotsAndBoxes")
register("hex-v0", f"{GAMES}.hex:Hex")
register("kuhn_poker-v0", f"{GAMES}.kuhn_poker:KuhnPoker")
register(
    "mini_hanabi-v0",
    f"{GAMES}.hanabi:Hanabi",
    num_colors=2,
    num_ranks=2,
    hand_size=3,
    max_information_tokens=3,
    max_life_tokens=3,
)
register("nim-v0", f"{GAMES}.nim:Nim")
register("tic_tac_toe-v0", f"{GAMES}.tic_tac_toe:TicTacToe")
register_plugins()
