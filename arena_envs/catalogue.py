"""The ids of our games, in alphabetical order, and then those of plug-ins."""

from arena_envs.registration import register, register_plugins

GAMES = "arena_envs.games"

register("breakthrough-v0", f"{GAMES}.breakthrough:Breakthrough")
register("connect_four-v0", f"{GAMES}.connect_four:ConnectFour", split="held_out")
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
register("othello-v0", f"{GAMES}.othello:Othello")
register("tic_tac_toe-v0", f"{GAMES}.tic_tac_toe:TicTacToe")
register_plugins()
