"""Chess: known numbers of its tree, its draws, its texts, and OpenSpiel's games."""

import random
from collections import Counter
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction

pytest.importorskip("chess")

from arena_envs.games.chess import ACTIONS, MOVES, Chess, State

game = Chess()
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
QUEEN_ENDING = "8/8/8/4k3/8/8/8/KQ6 w - - 0 1"


def play(texts: str, rules: Chess = game) -> State:
    state = rules.initial_state()
    for text in texts.split():
        state = rules.apply(state, rules.parse(state, text))
    return state


def legal_texts(rules: Chess, state: State) -> set[str]:
    return {rules.action_text(state, action) for action in rules.legal_actions(state)}


def num_lines(rules: Chess, state: State, num_turns: int) -> int:
    """Ways to play so many turns."""
    if num_turns == 0:
        return 1
    after = (rules.apply(state, action) for action in rules.legal_actions(state))
    return sum(num_lines(rules, state, num_turns - 1) for state in after)


@pytest.mark.parametrize(
    ("rules", "num_turns", "wanted"),
    [
        *((game, 1, 20), (game, 2, 400), (game, 3, 8902)),
        *((Chess(fen=KIWIPETE), 1, 48), (Chess(fen=KIWIPETE), 2, 2039)),
        pytest.param(game, 4, 197_281, marks=pytest.mark.slow),
        pytest.param(Chess(fen=KIWIPETE), 3, 97_862, marks=pytest.mark.slow),
    ],
)
def test_the_tree_has_its_known_size(rules: Chess, num_turns: int, wanted: int) -> None:
    assert num_lines(rules, rules.initial_state(), num_turns) == wanted


@pytest.mark.slow
def test_random_games_end_as_documented() -> None:
    rng, endings, num_turns = random.Random(0), Counter[str](), 0
    for _ in range(100):
        state = game.initial_state()
        while game.current_player(state) != TERMINAL:
            state = game.apply(state, rng.choice(game.legal_actions(state)))
        endings[state.ending] += 1
        endings[f"{game.returns(state)[0]:g}"] += 1
        num_turns += state.num_turns
    assert (endings["1"], endings["-1"], endings["length"]) == (4, 1, 94)
    assert num_turns == 19_506


def beside_openspiel(rules: Chess, num_games: int) -> Counter[str]:
    """Plays random games in both; returns how they ended.

    White is OpenSpiel's player 1. Its boards name the square of an en passant capture
    even where a pin forbids it, so that field of the FEN is not compared.
    """
    import pyspiel

    other_game, rng, endings = pyspiel.load_game("chess"), random.Random(0), Counter()
    for _ in range(num_games):
        state, other = rules.initial_state(), other_game.new_initial_state(rules.fen)
        while True:
            player = rules.current_player(state)
            assert (player == TERMINAL) == other.is_terminal()
            assert list(rules.returns(state)) == other.returns()[::-1]
            board = other.board()
            fields, others = rules._board(state).fen().split(), board.to_fen().split()
            assert fields[:3] + fields[4:] == others[:3] + others[4:]
            if player == TERMINAL:
                break
            assert player == 1 - other.current_player()
            moves = {
                pyspiel.chess.action_to_move(action, board).to_lan(): action
                for action in other.legal_actions()
            }
            assert legal_texts(rules, state) == set(moves)
            text = rng.choice(sorted(moves))
            san = other.action_to_string(moves[text])
            if san.lower() not in moves:
                assert rules.parse(state, san) == ACTIONS[text]
            state = rules.apply(state, ACTIONS[text])
            other.apply_action(moves[text])
        endings[state.ending] += 1
    return endings


@pytest.mark.parametrize(
    ("fen", "num_games", "ending"),
    [
        (game.fen, 15, "checkmate"),
        (KIWIPETE, 10, "material"),
        pytest.param(QUEEN_ENDING, 100, "stalemate", marks=pytest.mark.slow),
        ("4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1", 10, "fifty"),
        ("8/p6k/8/8/8/8/P6K/8 w - - 0 1", 20, "repetition"),
        pytest.param(
            "kb6/8/8/8/8/8/8/KB6 w - - 0 1", 30, "material", marks=pytest.mark.slow
        ),
        ("kn6/8/8/8/8/8/8/KNN5 w - - 0 1", 30, "material"),
        pytest.param(
            "kb6/b7/8/8/8/8/8/KB1B4 b - - 80 70", 50, "fifty", marks=pytest.mark.slow
        ),
        pytest.param(
            "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", 20, "fifty", marks=pytest.mark.slow
        ),
    ],
)
def test_it_plays_like_openspiels(
    oracle: Any, fen: str, num_games: int, ending: str
) -> None:
    assert beside_openspiel(Chess(max_plies=11_800, fen=fen), num_games)[ending] > 0


@pytest.mark.slow
def test_a_thousand_games_play_like_openspiels(oracle: Any) -> None:
    endings = beside_openspiel(Chess(max_plies=11_800), 1000)
    assert min(endings.values()) > 10
    assert len(endings) == 5


def test_openspiel_counts_a_position_twice_if_en_passant_was_pinned(
    oracle: Any,
) -> None:
    import pyspiel

    rules = Chess(fen="3k4/8/8/8/3p4/8/4P3/K2R4 w - - 0 1")
    back_and_forth = "d8c8 a1b1 c8d8 b1a1"
    texts = f"e2e4 {back_and_forth} {back_and_forth}"
    assert play(texts, rules).ending == "repetition"
    other = pyspiel.load_game("chess").new_initial_state(rules.fen)
    for text in texts.split():
        other.apply_action(other.parse_move_to_action(text))
    assert not other.is_terminal()


@pytest.mark.parametrize(
    "rules",
    [
        Chess(max_plies=1),
        Chess(max_plies=30, fen=QUEEN_ENDING),
        Chess(max_plies=10, fen=KIWIPETE.replace(" w ", " b ")),
        Chess(max_plies=15, fen="3r2k1/P1P1P1P1/8/8/8/8/p1p1p1p1/3R2K1 w - - 90 70"),
    ],
    ids=repr,
)
def test_other_settings_keep_the_contract(check_contract: Any, rules: Chess) -> None:
    check_contract(rules)


def test_actions_are_ordered_by_squares_and_promotion() -> None:
    assert len(MOVES) == len(ACTIONS) == game.num_actions == 1792 + 176
    assert sum(move.promotion is not None for move in MOVES) == 176
    keys = [(m.from_square, m.to_square, m.promotion or 0) for m in MOVES]
    assert keys == sorted(keys)
    assert [move.uci() for move in MOVES[:3]] == ["a1b1", "a1c1", "a1d1"]


def test_the_shortest_game_has_four_turns() -> None:
    state = play("f2f3 e7e5 g2g4 d8h4")
    assert game.returns(state) == (-1, 1)
    assert game.observe(state, 0).endswith("Checkmate: Black has won.")
    assert not any(
        game.returns(after) != (0, 0)
        for first in game.legal_actions(game.initial_state())
        for second in game.legal_actions(game.apply(game.initial_state(), first))
        for after in [game.apply(game.apply(game.initial_state(), first), second)]
    )


def test_white_wins_by_checkmate_too() -> None:
    state = play("e4 e5 Bc4 Nc6 Qh5 Nf6 Qxf7#")
    assert game.returns(state) == (1, -1)
    assert game.observe(state, 1).endswith("Checkmate: White has won.")


@pytest.mark.parametrize(
    ("fen", "texts", "ending", "returns"),
    [
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", "f1f7", "stalemate", (0, 0)),
        ("7k/8/8/8/8/8/5p2/6K1 w - - 0 1", "g1f2", "material", (0, 0)),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 99 80", "f1a1", "fifty", (0, 0)),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 99 80", "f1f8", "checkmate", (1, -1)),
        ("7k/8/6K1/8/8/8/P7/8 w - - 99 80", "a2a3", "", (0, 0)),
        ("7k/8/6K1/8/8/8/P7/8 w - - 98 80", "g6h6 h8g8", "fifty", (0, 0)),
    ],
)
def test_endings(
    fen: str, texts: str, ending: str, returns: tuple[float, float]
) -> None:
    rules = Chess(fen=fen)
    state = play(texts, rules)
    assert (state.ending, rules.returns(state)) == (ending, returns)
    assert (rules.current_player(state) == TERMINAL) == bool(ending)


def test_the_third_occurrence_ends_the_game_and_is_announced() -> None:
    knights = "g1f3 g8f6 f3g1 f6g8"
    state = play(f"{knights} g1f3 g8f6 f3g1")
    assert state.ending == ""
    assert "a draw, after: f6g8\n" in game.observe(state, 0)
    assert "a draw, after" not in game.observe(play("g1f3 g8f6 f3g1"), 0)
    end = play(f"{knights} {knights}")
    assert end.ending == "repetition"
    assert game.observe(end, 0).endswith("Third occurrence of this position: a draw.")


def test_positions_differ_by_castling_and_by_a_legal_en_passant_capture() -> None:
    castling = Chess(fen="4k3/8/8/8/8/8/8/4K2R w K - 0 1")
    back = "h1h2 e8d8 h2h1 d8e8"
    assert play(f"{back} {back}", castling).ending == ""
    assert play(f"{back} {back} h1h2", castling).ending == "repetition"
    passing = Chess(fen="4k3/8/8/8/3p4/8/4P3/K7 w - - 0 1")
    back = "e8d8 a1b1 d8e8 b1a1"
    assert play(f"e2e4 {back} {back}", passing).ending == ""
    assert play(f"e2e4 {back} {back} e8d8", passing).ending == "repetition"


def test_a_game_that_is_too_long_is_a_draw() -> None:
    rules = Chess(max_plies=3)
    state = play("e4 e5 Nf3", rules)
    assert (state.ending, rules.returns(state)) == ("length", (0, 0))
    mate = Chess(max_plies=4)
    assert mate.returns(play("f3 e5 g4 Qh4", mate)) == (-1, 1)


@pytest.mark.parametrize(
    ("fen", "text", "uci"),
    [
        (game.fen, "e4", "e2e4"),
        (game.fen, "E2E4", "e2e4"),
        (game.fen, "e2-e4", "e2e4"),
        (game.fen, "1. Nf3!?", "g1f3"),
        (game.fen, "1.Nf3", "g1f3"),
        ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "O-O", "e1g1"),
        ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "o-o-o", "e1c1"),
        ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "0-0", "e1g1"),
        ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "E1C1", "e1c1"),
        ("7k/4P3/8/8/8/8/8/K7 w - - 0 1", "e8=Q+", "e7e8q"),
        ("7k/4P3/8/8/8/8/8/K7 w - - 0 1", "e7e8=N", "e7e8n"),
        ("7k/8/8/8/8/2n5/1P1B4/K7 w - - 0 1", "bxc3", "b2c3"),
        ("7k/8/8/8/8/2n5/1P1B4/K7 w - - 0 1", "Bxc3", "d2c3"),
        ("7k/8/8/8/8/2n5/1P1B4/K7 w - - 0 1", "B2C3", "b2c3"),
    ],
)
def test_spellings(fen: str, text: str, uci: str) -> None:
    rules = Chess(fen=fen)
    action = rules.parse(rules.initial_state(), text)
    assert rules.action_text(rules.initial_state(), action) == uci


@pytest.mark.parametrize(
    ("fen", "text"),
    [
        *(
            (game.fen, "e2e5"),
            (game.fen, "e2e4q"),
            (game.fen, "Ke2"),
            (game.fen, "e7e5"),
        ),
        *((game.fen, "--"), (game.fen, "0000"), (game.fen, "Z0"), (game.fen, "O-O")),
        *(
            (game.fen, "e4 e5"),
            (game.fen, "a1a1"),
            (game.fen, "e2e4\N{FULLWIDTH DIGIT ONE}"),
        ),
        ("7k/4P3/8/8/8/8/8/K7 w - - 0 1", "e8"),  # a piece has to be chosen
        ("7k/4P3/8/8/8/8/8/K7 w - - 0 1", "e7e8k"),
        ("7k/8/8/1N6/8/8/8/KN6 w - - 0 1", "Nc3"),  # either knight
    ],
)
def test_what_is_no_legal_move_is_refused(fen: str, text: str) -> None:
    rules = Chess(fen=fen)
    with pytest.raises(
        IllegalAction, match="want a legal move such as 'e2e4' or 'Nf3'"
    ):
        rules.parse(rules.initial_state(), text)


@pytest.mark.parametrize(
    ("fen", "uci"),
    [
        ("8/7k/8/8/3B4/2n5/1P1B4/K7 w - - 0 1", "b2c3"),  # pawn
        ("8/7k/8/8/3B4/2n5/3B4/K7 w - - 0 1", "d2c3"),  # bishop on the second rank
    ],
)
def test_what_is_no_move_in_uci_may_be_one_in_san(fen: str, uci: str) -> None:
    rules = Chess(fen=fen)
    assert rules.parse(rules.initial_state(), "B2c3") == ACTIONS[uci]


def test_the_text_shows_the_board_and_what_else_matters() -> None:
    state = play("e4 f5 Qh5+")
    board = (
        "8 r n b q k b n r\n7 p p p p p . p p\n6 . . . . . . . .\n5 . . . . . p . Q\n"
        "4 . . . . P . . .\n3 . . . . . . . .\n2 P P P P . P P P\n1 R N B . K B N R\n"
        "  a b c d e f g h\n"
        "FEN: rnbqkbnr/ppppp1pp/8/5p1Q/4P3/8/PPPP1PPP/RNB1KBNR b KQkq - 1 2\n"
        "Black is in check.\nTurn 4 of at most 200: "
    )
    assert game.observe(state, 0) == f"You are White.\n{board}Black is to move."
    assert game.observe(state, 1) == f"You are Black.\n{board}you are to move."


def test_the_fen_in_the_text_goes_on_from_the_one_at_the_start() -> None:
    rules = Chess(fen=KIWIPETE.replace("w KQkq - 0 1", "b KQkq - 7 30"))
    assert rules.current_player(rules.initial_state()) == 1
    assert " w KQq - 8 31\n" in rules.observe(play("Rh5", rules), 0)


def test_features_are_own_and_other_pieces_and_the_rest() -> None:
    state = play("e4 e6 e5 d5 Ke2")  # Black may not capture en passant, White could
    white, black = game.features(state, 0), game.features(state, 1)
    assert len(white) == 12 * 64 + 17
    assert white[:384].tolist() == black[384:768].tolist()
    assert white[384:768].tolist() == black[:384].tolist()
    assert white[5 * 64 + 12] == 1  # the own king is on e2
    assert white[768:772].tolist() == [0, 0, 1, 1]
    assert black[768:772].tolist() == [1, 1, 0, 0]
    assert (white[780:782].tolist(), black[780:782].tolist()) == ([0, 0], [1, 1])
    assert white[782:].tolist() == pytest.approx([1 / 100, 5 / 200, 0])
    capture = game.features(play("e4 e6 e5 d5"), 0)
    assert capture[772:780].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert not white[772:780].any()
    again = game.features(play("Nf3 Nf6 Ng1 Ng8"), 0)
    assert again[-1] == 0.5


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_plies": 0}, "integer max_plies from 1 to 11800, got 0"),
        ({"max_plies": 11_801}, "integer max_plies from 1 to 11800, got 11801"),
        ({"fen": "e4"}, "fen as the FEN of a position, got 'e4'"),
        ({"fen": None}, "fen as the FEN of a position, got None"),
        ({"fen": "8/8/8/8/8/8/8/K7 w - - 0 1"}, "the FEN of a position"),  # one king
        ({"fen": "k6R/8/8/8/8/8/8/K7 w - - 0 1"}, "the FEN of a position"),
        ({"fen": "k7/8/8/8/8/8/8/K7 w - - 0 1"}, r"goes on, got .*\(material\)"),
        ({"fen": "k7/8/8/8/8/8/8/KQ6 w - - 100 99"}, r"goes on, got .*\(fifty\)"),
        ({"fen": "k7/1Q6/1K6/8/8/8/8/8 b - - 0 1"}, r"goes on, got .*\(checkmate\)"),
    ],
)
def test_impossible_parameters_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Chess(**params)


def test_the_rules_hold_for_a_game_from_a_fen() -> None:
    endgame = Chess(max_plies=1, fen="8/5k2/8/8/8/8/1p6/5K2 b - - 7 40")
    for seat in (0, 1):
        text = endgame.rules(seat)
        assert "Black moves first." in text
        assert "after 1 turn of both players together" in text
        assert "starts on" not in text
    assert "White moves first." in game.rules(1)
    state = endgame.initial_state()
    assert endgame.observe(state, 1).splitlines()[-2:] == [
        "FEN: 8/5k2/8/8/8/8/1p6/5K2 b - - 7 40",
        "Turn 1 of at most 1: you are to move.",
    ]
