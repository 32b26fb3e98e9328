"""The ids of our games, in alphabetical order, and then those of plug-ins."""

from typing import Any

from arena_envs.registration import register, register_plugins

GAMES = "arena_envs.games"

ITERATED = f"{GAMES}.iterated_matrix_game:IteratedMatrixGame"
MATRIX_GAME = f"{GAMES}.matrix_game:MatrixGame"

# payoffs[action of player_0][action of player_1][seat]
ROCK_PAPER_SCISSORS: dict[str, Any] = {
    "payoffs": (
        ((0, 0), (-1, 1), (1, -1)),
        ((1, -1), (0, 0), (-1, 1)),
        ((-1, 1), (1, -1), (0, 0)),
    ),
    "actions": ("Rock", "Paper", "Scissors"),
}
STAG_HUNT: dict[str, Any] = {
    "payoffs": (((2, 2), (0, 1)), ((1, 0), (1, 1))),
    "actions": ("Stag", "Hare"),
}

register("bargaining-v0", f"{GAMES}.bargaining:Bargaining")
register(
    "battle_of_the_sexes-v0",
    MATRIX_GAME,
    payoffs=(((3, 2), (0, 0)), ((0, 0), (2, 3))),
    actions=("Bach", "Stravinsky"),
)
register("battleship-v0", f"{GAMES}.battleship:Battleship")
register("blackjack-v0", f"{GAMES}.blackjack:Blackjack")
register("breakthrough-v0", f"{GAMES}.breakthrough:Breakthrough")
register(
    "chess-v0",
    f"{GAMES}.chess:Chess",
    extra="chess",
    facts=("competitive", 2, "perfect"),
)
register(
    "chicken-v0",
    MATRIX_GAME,
    payoffs=(((0, 0), (4, 1)), ((1, 4), (3, 3))),
    actions=("Dare", "Chicken"),
)
register("colonel_blotto-v0", f"{GAMES}.colonel_blotto:ColonelBlotto")
register("connect_four-v0", f"{GAMES}.connect_four:ConnectFour", split="held_out")
register("donor_game-v0", f"{GAMES}.donor_game:DonorGame")
register("dots_and_boxes-v0", f"{GAMES}.dots_and_boxes:DotsAndBoxes")
register("goofspiel-v0", f"{GAMES}.goofspiel:Goofspiel")
register("hanabi-v0", f"{GAMES}.hanabi:Hanabi")
register("hex-v0", f"{GAMES}.hex:Hex")
register("iterated_matrix_game-v0", ITERATED)
register("iterated_prisoners_dilemma-v0", ITERATED)  # its default table
register("iterated_rock_paper_scissors-v0", ITERATED, **ROCK_PAPER_SCISSORS)
register("iterated_stag_hunt-v0", ITERATED, **STAG_HUNT)
register("kuhn_poker-v0", f"{GAMES}.kuhn_poker:KuhnPoker")
register("leduc_poker-v0", f"{GAMES}.leduc_poker:LeducPoker", split="held_out")
register("liars_dice-v0", f"{GAMES}.liars_dice:LiarsDice")
register(
    "limit_holdem-v0",
    f"{GAMES}.limit_holdem:LimitHoldem",
    extra="poker",
    facts=("competitive", 2, "imperfect"),
)
register(
    "matching_pennies-v0",
    MATRIX_GAME,
    payoffs=(((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
    actions=("Heads", "Tails"),
)
register("matrix_game-v0", MATRIX_GAME)
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
register("othello-v0", f"{GAMES}.othello:Othello")
register("prisoners_dilemma-v0", MATRIX_GAME)  # its default table
register("public_goods-v0", f"{GAMES}.public_goods:PublicGoods")
register("rock_paper_scissors-v0", MATRIX_GAME, **ROCK_PAPER_SCISSORS)
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
register("stag_hunt-v0", MATRIX_GAME, **STAG_HUNT)
register("tic_tac_toe-v0", f"{GAMES}.tic_tac_toe:TicTacToe")
register("tiny_hanabi-v0", f"{GAMES}.tiny_hanabi:TinyHanabi")
register_plugins()
