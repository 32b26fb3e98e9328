"""The ids of our games, in alphabetical order, and then those of plug-ins."""

from typing import Any

from arena_envs.registration import register, register_plugins

GAMES = "arena_envs.games"
SCENES = "arena_envs.scenes"

ITERATED = f"{GAMES}.iterated_matrix_game:IteratedMatrixGame"
MATRIX_SCENE = f"{SCENES}.rounds:matrix_game"
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

register(
    "auction-v0",
    f"{GAMES}.auction:Auction",
    scene=f"{SCENES}.deals:auction",
)
register(
    "bargaining-v0",
    f"{GAMES}.bargaining:Bargaining",
    scene=f"{SCENES}.words:bargaining",
)
register(
    "battle_of_the_sexes-v0",
    MATRIX_GAME,
    scene=MATRIX_SCENE,
    payoffs=(((3, 2), (0, 0)), ((0, 0), (2, 3))),
    actions=("Bach", "Stravinsky"),
)
register(
    "battleship-v0",
    f"{GAMES}.battleship:Battleship",
    scene=f"{SCENES}.battleship:battleship",
)
register(
    "blackjack-v0", f"{GAMES}.blackjack:Blackjack", scene=f"{SCENES}.poker:blackjack"
)
register(
    "breakthrough-v0",
    f"{GAMES}.breakthrough:Breakthrough",
    scene=f"{SCENES}.boards:breakthrough",
)
register(
    "chess-v0",
    f"{GAMES}.chess:Chess",
    scene=f"{SCENES}.chess:chess_board",
    extra="chess",
    facts=("competitive", 2, "perfect"),
)
register(
    "chicken-v0",
    MATRIX_GAME,
    scene=MATRIX_SCENE,
    payoffs=(((0, 0), (4, 1)), ((1, 4), (3, 3))),
    actions=("Dare", "Chicken"),
)
register(
    "codenames-v0",
    f"{GAMES}.codenames:Codenames",
    scene=f"{SCENES}.clues:codenames",
)
register(
    "collaborative_maze-v0",
    f"{GAMES}.collaborative_maze:CollaborativeMaze",
    scene=f"{SCENES}.dialogue:collaborative_maze",
)
register(
    "colonel_blotto-v0",
    f"{GAMES}.colonel_blotto:ColonelBlotto",
    scene=f"{SCENES}.rounds:colonel_blotto",
)
register(
    "connect_four-v0",
    f"{GAMES}.connect_four:ConnectFour",
    scene=f"{SCENES}.boards:connect_four",
    split="held_out",
)
register(
    "deal_or_no_deal-v0",
    f"{GAMES}.deal_or_no_deal:DealOrNoDeal",
    scene=f"{SCENES}.dialogue:deal_or_no_deal",
)
register(
    "donor_game-v0",
    f"{GAMES}.donor_game:DonorGame",
    scene=f"{SCENES}.rounds:donor_game",
)
register(
    "dots_and_boxes-v0",
    f"{GAMES}.dots_and_boxes:DotsAndBoxes",
    scene=f"{SCENES}.tokens:dots_and_boxes",
)
register(
    "frozen_lake-v0",
    f"{GAMES}.frozen_lake:FrozenLake",
    scene=f"{SCENES}.walks:frozen_lake",
)
register(
    "goofspiel-v0", f"{GAMES}.goofspiel:Goofspiel", scene=f"{SCENES}.rounds:goofspiel"
)
register(
    "guess_number-v0",
    f"{GAMES}.guess_number:GuessNumber",
    scene=f"{SCENES}.secrets:guess_number",
)
register("hanabi-v0", f"{GAMES}.hanabi:Hanabi", scene=f"{SCENES}.hanabi:hanabi")
register("hex-v0", f"{GAMES}.hex:Hex", scene=f"{SCENES}.boards:hex_board")
register("iterated_matrix_game-v0", ITERATED, scene=MATRIX_SCENE)
register(
    "iterated_prisoners_dilemma-v0", ITERATED, scene=MATRIX_SCENE
)  # its default table
register(
    "iterated_rock_paper_scissors-v0",
    ITERATED,
    scene=MATRIX_SCENE,
    **ROCK_PAPER_SCISSORS,
)
register("iterated_stag_hunt-v0", ITERATED, scene=MATRIX_SCENE, **STAG_HUNT)
register(
    "kuhn_poker-v0", f"{GAMES}.kuhn_poker:KuhnPoker", scene=f"{SCENES}.poker:kuhn_poker"
)
register(
    "leduc_poker-v0",
    f"{GAMES}.leduc_poker:LeducPoker",
    scene=f"{SCENES}.poker:leduc_poker",
    split="held_out",
)
register(
    "liars_dice-v0", f"{GAMES}.liars_dice:LiarsDice", scene=f"{SCENES}.poker:liars_dice"
)
register(
    "limit_holdem-v0",
    f"{GAMES}.limit_holdem:LimitHoldem",
    scene=f"{SCENES}.holdem:limit_holdem",
    extra="poker",
    facts=("competitive", 2, "imperfect"),
)
register(
    "matching_pennies-v0",
    MATRIX_GAME,
    scene=MATRIX_SCENE,
    payoffs=(((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
    actions=("Heads", "Tails"),
)
register("matrix_game-v0", MATRIX_GAME, scene=MATRIX_SCENE)
register(
    "mini_hanabi-v0",
    f"{GAMES}.hanabi:Hanabi",
    scene=f"{SCENES}.hanabi:hanabi",
    num_colors=2,
    num_ranks=2,
    hand_size=3,
    max_information_tokens=3,
    max_life_tokens=3,
)
register(
    "negotiation-v0",
    f"{GAMES}.negotiation:Negotiation",
    scene=f"{SCENES}.deals:negotiation",
)
register("nim-v0", f"{GAMES}.nim:Nim", scene=f"{SCENES}.tokens:nim")
register("othello-v0", f"{GAMES}.othello:Othello", scene=f"{SCENES}.boards:othello")
register(
    "persuasion-v0",
    f"{GAMES}.persuasion:Persuasion",
    scene=f"{SCENES}.deals:persuasion",
)
register("prisoners_dilemma-v0", MATRIX_GAME, scene=MATRIX_SCENE)  # its default table
register(
    "public_goods-v0",
    f"{GAMES}.public_goods:PublicGoods",
    scene=f"{SCENES}.rounds:public_goods",
)
register(
    "referential-v0",
    f"{GAMES}.referential:Referential",
    scene=f"{SCENES}.clues:referential",
)
register(
    "rock_paper_scissors-v0", MATRIX_GAME, scene=MATRIX_SCENE, **ROCK_PAPER_SCISSORS
)
register(
    "say_select-v0",
    f"{GAMES}.say_select:SaySelect",
    scene=f"{SCENES}.hints:say_select",
)
register(
    "secret_keeper-v0",
    f"{GAMES}.secret_keeper:SecretKeeper",
    scene=f"{SCENES}.hints:secret_keeper",
)
register(
    "signaling-v0", f"{GAMES}.signaling:Signaling", scene=f"{SCENES}.words:signaling"
)
register(
    "simple_hanabi-v0",
    f"{GAMES}.hanabi:Hanabi",
    scene=f"{SCENES}.hanabi:hanabi",
    split="held_out",
    num_colors=3,
    num_ranks=2,
    hand_size=5,
    max_information_tokens=8,
    max_life_tokens=3,
)
register("sokoban-v0", f"{GAMES}.sokoban:Sokoban", scene=f"{SCENES}.walks:sokoban")
register(
    "social_dilemma-v0",
    f"{GAMES}.social_dilemma:SocialDilemma",
    scene=f"{SCENES}.dialogue:social_dilemma",
)
register(
    "speaker_listener-v0",
    f"{GAMES}.speaker_listener:SpeakerListener",
    scene=f"{SCENES}.words:speaker_listener",
)
register("stag_hunt-v0", MATRIX_GAME, scene=MATRIX_SCENE, **STAG_HUNT)
register("taboo-v0", f"{GAMES}.taboo:Taboo", scene=f"{SCENES}.clues:taboo")
register(
    "tic_tac_toe-v0",
    f"{GAMES}.tic_tac_toe:TicTacToe",
    scene=f"{SCENES}.boards:tic_tac_toe",
)
register(
    "tiny_hanabi-v0",
    f"{GAMES}.tiny_hanabi:TinyHanabi",
    scene=f"{SCENES}.hanabi:tiny_hanabi",
)
register(
    "twenty_questions-v0",
    f"{GAMES}.twenty_questions:TwentyQuestions",
    scene=f"{SCENES}.secrets:twenty_questions",
)
register(
    "werewolf-v0",
    f"{GAMES}.werewolf:Werewolf",
    scene=f"{SCENES}.roles:werewolf",
)
register("wordle-v0", f"{GAMES}.wordle:Wordle", scene=f"{SCENES}.secrets:wordle")
register_plugins()
