"""The ids of our games, in alphabetical order, and then those of plug-ins."""

from arena_envs.registration import register, register_plugins

GAMES = "arena_envs.games"

register("hanabi-v0", f"{GAMES}.hanabi:Hanabi")
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
register("signaling-v0", f"{GAMES}.signaling:Signaling")
register(
    "simple_hanabi-v0",
    f"{GAMES}.hanabi:Hanabi",
    split="held_out",
    num_colors=3,
    num_ranks=2,
    hand_size=5,
    max_information_tokens=8,
    max_life_tokens=3,
)
register("speaker_listener-v0", f"{GAMES}.speaker_listener:SpeakerListener")
register("tic_tac_toe-v0", f"{GAMES}.tic_tac_toe:TicTacToe")
register("tiny_hanabi-v0", f"{GAMES}.tiny_hanabi:TinyHanabi")
register_plugins()
