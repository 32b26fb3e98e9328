"""The ids of our games in alphabetical order, and the names of bots for one game or family."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from arena_envs.game import Information, Kind

Split = Literal["train", "held_out"]
Facts = tuple[Kind, int, Information]  # kind, number of players and information


class Listed(NamedTuple):
    """A game of the catalogue.

    Attributes:
        game: `"module:Class"` below `arena_envs.games`.
        params: parameters of the class, where the id is a preset.
        split: whether the game is for training or held out for evaluation.
        extra: the extra of this distribution that the game needs.
        facts: what `game_infos()` tells of a game with an extra.
        bots: `"module:Class"` below `arena_envs.games`, by the name that
            `arena_envs.bots.make_bot` reads.
    """

    game: str
    params: Mapping[str, Any] = {}  # nobody changes it
    split: Split = "train"
    extra: str | None = None
    facts: Facts | None = None
    bots: Mapping[str, str] = {}


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

GAMES = {
    "auction-v1": Listed("auction:Auction", bots={"bidder": "auction:Bidder"}),
    "bargaining-v1": Listed("bargaining:Bargaining"),
    "battle_of_the_sexes-v0": Listed(
        "matrix_game:MatrixGame",
        params={
            "payoffs": (((3, 2), (0, 0)), ((0, 0), (2, 3))),
            "actions": ("Bach", "Stravinsky"),
        },
    ),
    "battleship-v0": Listed("battleship:Battleship"),
    "blackjack-v0": Listed("blackjack:Blackjack"),
    "breakthrough-v0": Listed("breakthrough:Breakthrough"),
    "chess-v0": Listed(
        "chess:Chess", extra="chess", facts=("competitive", 2, "perfect")
    ),
    "chicken-v0": Listed(
        "matrix_game:MatrixGame",
        params={
            "payoffs": (((0, 0), (4, 1)), ((1, 4), (3, 3))),
            "actions": ("Dare", "Chicken"),
        },
    ),
    "codenames-v1": Listed("codenames:Codenames", bots={"spy": "codenames:Spy"}),
    "collaborative_maze-v1": Listed(
        "collaborative_maze:CollaborativeMaze",
        bots={"maze_walker": "collaborative_maze:MazeWalker"},
    ),
    "colonel_blotto-v0": Listed("colonel_blotto:ColonelBlotto"),
    "connect_four-v0": Listed("connect_four:ConnectFour", split="held_out"),
    "deal_or_no_deal-v1": Listed(
        "deal_or_no_deal:DealOrNoDeal", bots={"dealer": "deal_or_no_deal:Dealer"}
    ),
    "donor_game-v0": Listed("donor_game:DonorGame"),
    "dots_and_boxes-v0": Listed("dots_and_boxes:DotsAndBoxes"),
    "frozen_lake-v1": Listed("frozen_lake:FrozenLake"),
    "goofspiel-v0": Listed("goofspiel:Goofspiel"),
    "guess_number-v1": Listed(
        "guess_number:GuessNumber",
        bots={
            "information_gain": "kits.questions:InformationGain",
            "question_tree": "kits.questions:QuestionTree",
        },
    ),
    "hanabi-v0": Listed(
        "hanabi:Hanabi", bots={"hanabi_convention": "hanabi:HanabiConvention"}
    ),
    "hex-v0": Listed("hex:Hex"),
    "iterated_matrix_game-v0": Listed(
        "iterated_matrix_game:IteratedMatrixGame",
        bots={
            "always_cooperate": "iterated_matrix_game:AlwaysCooperate",
            "always_defect": "iterated_matrix_game:AlwaysDefect",
            "tit_for_tat": "iterated_matrix_game:TitForTat",
            "generous_tit_for_tat": "iterated_matrix_game:GenerousTitForTat",
            "grim_trigger": "iterated_matrix_game:GrimTrigger",
            "win_stay_lose_shift": "iterated_matrix_game:WinStayLoseShift",
        },
    ),
    "iterated_prisoners_dilemma-v0": Listed("iterated_matrix_game:IteratedMatrixGame"),
    "iterated_rock_paper_scissors-v0": Listed(
        "iterated_matrix_game:IteratedMatrixGame", params=ROCK_PAPER_SCISSORS
    ),
    "iterated_stag_hunt-v0": Listed(
        "iterated_matrix_game:IteratedMatrixGame", params=STAG_HUNT
    ),
    "kuhn_poker-v0": Listed("kuhn_poker:KuhnPoker"),
    "leduc_poker-v0": Listed("leduc_poker:LeducPoker", split="held_out"),
    "liars_dice-v0": Listed("liars_dice:LiarsDice"),
    "limit_holdem-v0": Listed("limit_holdem:LimitHoldem"),
    "matching_pennies-v0": Listed(
        "matrix_game:MatrixGame",
        params={
            "payoffs": (((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
            "actions": ("Heads", "Tails"),
        },
    ),
    "matrix_game-v0": Listed("matrix_game:MatrixGame"),
    "mini_hanabi-v0": Listed(
        "hanabi:Hanabi",
        params={
            "num_colors": 2,
            "num_ranks": 2,
            "hand_size": 3,
            "max_information_tokens": 3,
            "max_life_tokens": 3,
        },
    ),
    "negotiation-v1": Listed(
        "negotiation:Negotiation", bots={"negotiator": "negotiation:Negotiator"}
    ),
    "nim-v0": Listed("nim:Nim"),
    "othello-v0": Listed(
        "othello:Othello", bots={"othello_greedy": "othello:OthelloGreedy"}
    ),
    "persuasion-v1": Listed(
        "persuasion:Persuasion", bots={"persuader": "persuasion:Persuader"}
    ),
    "prisoners_dilemma-v0": Listed("matrix_game:MatrixGame"),
    "public_goods-v0": Listed("public_goods:PublicGoods"),
    "questions-v0": Listed("questions:Questions"),
    "referential-v1": Listed(
        "referential:Referential", bots={"referrer": "referential:Referrer"}
    ),
    "rock_paper_scissors-v0": Listed(
        "matrix_game:MatrixGame", params=ROCK_PAPER_SCISSORS
    ),
    "rounds-v0": Listed("rounds:Rounds"),
    "say_select-v0": Listed(
        "say_select:SaySelect", bots={"say_selector": "say_select:SaySelector"}
    ),
    "secret_keeper-v1": Listed(
        "secret_keeper:SecretKeeper",
        bots={"secret_holder": "secret_keeper:SecretHolder"},
    ),
    "signaling-v0": Listed("signaling:Signaling"),
    "simple_hanabi-v0": Listed(
        "hanabi:Hanabi",
        split="held_out",
        params={
            "num_colors": 3,
            "num_ranks": 2,
            "hand_size": 5,
            "max_information_tokens": 8,
            "max_life_tokens": 3,
        },
    ),
    "sokoban-v1": Listed(
        "sokoban:Sokoban", bots={"sokoban_search": "sokoban:SokobanSearch"}
    ),
    "social_dilemma-v1": Listed(
        "social_dilemma:SocialDilemma", bots={"promiser": "social_dilemma:Promiser"}
    ),
    "speaker_listener-v0": Listed("speaker_listener:SpeakerListener"),
    "stag_hunt-v0": Listed("matrix_game:MatrixGame", params=STAG_HUNT),
    "taboo-v1": Listed("taboo:Taboo", bots={"taboo": "taboo:TabooPlayer"}),
    "tic_tac_toe-v0": Listed("tic_tac_toe:TicTacToe"),
    "tiny_hanabi-v0": Listed("tiny_hanabi:TinyHanabi"),
    "twenty_questions-v1": Listed("twenty_questions:TwentyQuestions"),
    "werewolf-v1": Listed(
        "werewolf:Werewolf", bots={"werewolf_player": "werewolf:WerewolfPlayer"}
    ),
    "wordle-v1": Listed("wordle:Wordle"),
}
