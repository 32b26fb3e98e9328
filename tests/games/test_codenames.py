"""Codenames: clues that are refused, turns and ends, what is hidden, codes, lists of words."""

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.game import sample_chance
from arena_envs.games.codenames import CLUES, Codenames, State
from arena_envs.talk import Utterance

WORDS = (
    "ant",
    "bear",
    "cat",
    "dog",
    "horseshoe",
    "knife",
)  # each board has all of them
GAME = Codenames(num_words=6, num_agents=1, words=WORDS)
KEY = "001xnn"  # red: ant, bear; blue: cat; the assassin is dog


def play(texts: Sequence[str], key: str = KEY) -> State:
    state = State(board=0, key=key)
    for text in texts:
        state = GAME.apply(state, GAME.parse(state, text))
    return state


def won_by_red(red: str, blue: str, num_games: int = 60, mute: bool = False) -> float:
    """Share of games that red wins, with all clues replaced by "quiet 1" if `mute`."""
    rules, won = Codenames(), 0
    bots = [make_bot(f"spy:{style}") for style in (red, red, blue, blue)]
    for seed in range(num_games):
        state, rng = rules.initial_state(), random.Random(seed)
        while (player := rules.current_player(state)) != TERMINAL:
            said: Any
            if player == CHANCE:
                said = sample_chance(rules, state, rng)
            else:
                said = bots[player](rules, state, rng)
                if mute and said.move == "clue":
                    said = Utterance("clue", ("quiet", 1))
            state = rules.apply(state, said)
        won += state.winner == 0
    return won / num_games


def test_the_smallest_game_keeps_the_contract(check_contract: Any) -> None:
    check_contract(Codenames(num_words=4, num_agents=1))


def test_chance_draws_as_many_words_of_each_role_as_the_rules_say() -> None:
    rules, rng = Codenames(num_words=25, num_agents=8), random.Random(0)
    state = rules.initial_state()
    while rules.current_player(state) == CHANCE:
        state = rules.apply(state, sample_chance(rules, state, rng))
    assert [state.key.count(role) for role in "01xn"] == [9, 8, 1, 7]


class TestClues:
    @pytest.mark.parametrize(
        ("clue", "is_refused"),
        [
            *(("CAT", 1), ("cats", 1), ("knives", 1), ("bears", 1), ("horse", 1)),
            *(("shoes", 1), ("abc", 1), ("dgo", 1), ("two", 1), ("bearskin", 1)),
            *(("catalog", 0), ("ring", 0), ("beard", 0), ("animal", 0), ("bite", 0)),
        ],
    )
    def test_the_referee_refuses_codes_and_words_on_the_board(
        self, clue: str, is_refused: int
    ) -> None:
        state = play([f"clue {clue} 1"])
        assert bool(state.faults[0]) == bool(is_refused)
        assert GAME.current_player(state) == (CHANCE if is_refused else 1)

    def test_a_refused_clue_ends_the_turn_and_costs_a_word(self) -> None:
        state = play(["clue cats 1"], key="0011xn")
        assert GAME.chance_outcomes(state) == [(2, 0.5), (3, 0.5)]
        state = GAME.apply(state, 2)
        assert (GAME.current_player(state), state.hidden("1")) == (2, 1)
        assert GAME.returns(GAME.apply(play(["clue cats 1"]), 2)) == (-1, -1, 1, 1)

    def test_nobody_else_reads_a_refused_clue(self) -> None:
        state = GAME.apply(play(["clue cats 1"], key="0011xn"), 2)
        other = GAME.apply(play(["clue abc 1"], key="0011xn"), 2)
        assert "your clue cats was refused, because it says 'cat'" in GAME.observe(
            state, 0
        )
        for seat in (1, 2, 3):
            assert "Turn 1: a clue of player_0 was refused." in GAME.observe(
                state, seat
            )
            keys = [GAME.information_state(each, seat) for each in (state, other)]
            assert keys[0] == keys[1]

    def test_a_word_that_has_left_the_board_may_be_a_clue(self) -> None:
        state = play(["clue bite 1", "guess ant", "stop", "clue ants 1"])
        assert state.faults == ("", "")

    def test_prompts_show_three_clues_that_say_nothing_of_the_words(self) -> None:
        texts = [GAME.action_text(play([]), a) for a in GAME.shown_actions(play([]))]
        assert texts == [f"clue {word} 1" for word in CLUES[:3]]

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "clue two words 2", "want a clue such as"),
            ([], "clue b\u0435ar 1", "want a clue such as"),
            ([], "clue pet 3", "want NUMBER of a clue from 1 to 2, got 3"),
            ([], "clue a 1", "want WORD of a clue of 2 to 20 letters, got a"),
            ([], "The pets.\nclue pet 1", "no message with the action"),
            (["clue pet 1"], "stop", "want a guess such as"),
            (["clue pet 1"], "guess horse", "want one of the words ant, bear, cat"),
            (["clue pet 1", "guess ant"], "guess ant", "want one of the words bear"),
        ],
    )
    def test_other_texts_are_refused(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        with pytest.raises(IllegalAction, match=wanted):
            GAME.parse(play(texts), text)


class TestTurns:
    @pytest.mark.parametrize(
        ("texts", "player"),
        [
            (["clue bite 1"], 1),
            (["clue bite 1", "guess ant"], 1),
            (["clue bite 1", "guess ant", "stop"], 2),
            (["clue bite 1", "guess knife"], 2),
            (["clue bite 2", "guess knife", "clue pet 1"], 3),
        ],
    )
    def test_a_turn_ends_with_a_wrong_guess_or_a_stop(
        self, texts: list[str], player: int
    ) -> None:
        assert GAME.current_player(play(texts)) == player

    def test_an_operative_has_one_guess_more_than_the_number(self) -> None:
        state = play(["clue bite 1", "guess ant", "guess bear"], key="0001nx")
        assert GAME.current_player(state) == 2
        assert state.hidden("0") == 1

    @pytest.mark.parametrize(
        ("texts", "winner"),
        [
            (["clue bite 2", "guess ant", "guess bear"], 0),
            (["clue bite 2", "guess dog"], 1),
            (["clue bite 2", "guess cat"], 1),
            (["clue bite 2", "guess knife", "clue pet 1", "guess dog"], 0),
        ],
    )
    def test_a_team_wins_with_its_last_word_or_by_the_assassin(
        self, texts: list[str], winner: int
    ) -> None:
        state = play(texts)
        assert GAME.current_player(state) == TERMINAL
        assert GAME.returns(state) == ((1, 1, -1, -1), (-1, -1, 1, 1))[winner]

    def test_measures_count_hits_of_both_teams(self) -> None:
        texts = ["clue bite 1", "guess ant", "guess knife", "clue pet 1", "guess dog"]
        measures = {"hits": 1 / 3, "found_per_clue": 0.5, "assassin": 1.0, "refused": 0}
        assert GAME.measures(play(texts)) == pytest.approx(measures)

    def test_a_bad_reply_stops_or_guesses_the_first_word(self) -> None:
        first, second = play(["clue bite 1"]), play(["clue bite 1", "guess ant"])
        assert GAME.default_action(first) == Utterance("guess", ("ant",))
        assert GAME.default_action(second) == Utterance("stop")


class TestWhatIsHidden:
    TEXTS = ("clue bite 1", "guess ant", "guess knife", "clue pet 1")

    def test_only_spymasters_read_the_roles(self) -> None:
        state = play(self.TEXTS)
        history = [
            "Off the board: ant (red), knife (neutral).",
            "Words to find: red 1, blue 1.",
            "Turn 1: player_0 gave the clue bite 1.",
            "Turn 2: player_1 guessed ant.",
            "Turn 3: player_1 guessed knife.",
            "Turn 4: player_2 gave the clue pet 1.",
        ]
        assert GAME.observe(state, 0).splitlines() == [
            "You are player_0, the spymaster of team red. player_3, the operative of team blue, "
            "is to move: guess a word. 2 guesses left.",
            "On the board, red words: bear.",
            "On the board, blue words: cat.",
            "On the board, the assassin: dog.",
            "On the board, neutral words: horseshoe.",
            *(line.replace("player_0", "you") for line in history),
        ]
        assert GAME.observe(state, 3).splitlines() == [
            "You are player_3, the operative of team blue. You are to move: guess a word. 2 "
            "guesses left.",
            "Words on the board: bear, cat, dog, horseshoe.",
            *history,
        ]

    def test_new_draws_keep_what_has_been_guessed(self) -> None:
        state, rng = play(self.TEXTS), random.Random(0)
        keys = {GAME.resample(state, 1, rng).key for _ in range(300)}
        assert len(keys) == 24
        assert {(key[0], key[5]) for key in keys} == {("0", "n")}
        assert GAME.resample(state, 2, rng) == state

    def test_each_seat_has_an_order_of_its_own(self) -> None:
        rules = Codenames()
        orders = {tuple(rules.order(State(board=0), seat)) for seat in range(4)}
        assert len(orders) == 4


class TestScriptedPlayers:
    def test_a_team_with_a_code_wins_in_its_first_turn_whatever_the_key(self) -> None:
        """All keys of a small game; so the value is 1 for the team that begins."""
        rules = Codenames(num_words=4, num_agents=1, num_boards=1)
        bot, starts = make_bot("spy:optimal"), [rules.initial_state()]
        while rules.current_player(starts[0]) == CHANCE:
            starts = [
                rules.apply(state, outcome)
                for state in starts
                for outcome, _ in rules.chance_outcomes(state)
            ]
        assert len({state.key for state in starts}) == 12
        for state in starts:
            while rules.current_player(state) in (0, 1):
                state = rules.apply(state, bot(rules, state, random.Random(0)))
            assert rules.returns(state) == (1, 1, -1, -1)
        assert rules.known_value == "a red team that shares a code wins: 1, 1, -1, -1"
        assert Codenames(num_words=25, num_agents=8).known_value is None

    @pytest.mark.parametrize(
        ("red", "blue", "low", "high"),
        [
            ("optimal", "optimal", 1, 1),
            ("honest", "silent", 0.95, 1),
            ("silent", "honest", 0, 0.05),
            ("honest", "optimal", 0, 0),
            ("greedy", "honest", 0.2, 0.7),
        ],
    )
    def test_better_clues_win(
        self, red: str, blue: str, low: float, high: float
    ) -> None:
        num_games = 10 if "optimal" in (red, blue) else 60
        assert low <= won_by_red(red, blue, num_games) <= high

    def test_without_clues_a_player_wins_no_more_than_by_chance(self) -> None:
        assert won_by_red("honest", "silent", mute=True) < 0.65

    def test_clues_of_the_bots_are_admitted_on_every_board(self) -> None:
        rules = Codenames()
        for number in islice(range(rules.num_boards), 0, None, 50):
            state = State(board=number, key="0000111nnnnx")
            for style in ("honest", "greedy", "optimal"):
                said = make_bot(f"spy:{style}")(rules, state, random.Random(0))
                assert rules.parse(state, rules.action_text(state, said)) == said
                assert not rules.fault(state, said.values[0])
            assert len(rules.legal_actions(state)) > 5

    def test_another_style_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("spy:kind")


class TestParameters:
    def test_words_come_from_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "words.txt"
        path.write_text("\n".join(WORDS), "utf-8")
        rules = Codenames(num_words=6, num_agents=1, words=path)
        assert rules == GAME
        assert rules.boards[0] == WORDS

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("ant\n\nbear\ncat\ndog", "line 2: want a word"),
            ("ant\nbear\nant\ndog", "line 3: 'ant' stands at 1 already"),
            ("ant\nbear\ntea cup\ndog", "got 'tea cup' as word 3"),
            ("ant\nbear\ncat", "want 4 to 10,000 words in words, got 3"),
        ],
    )
    def test_a_bad_list_is_refused_with_its_line(
        self, tmp_path: Path, text: str, wanted: str
    ) -> None:
        path = tmp_path / "words.txt"
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=wanted):
            Codenames(num_words=4, num_agents=1, words=path)

    @pytest.mark.parametrize(
        ("params", "wanted"),
        [
            ({"num_words": 26}, "num_words from 4 to 25, got 26"),
            ({"num_agents": 6}, "num_agents from 1 to 5, got 6"),
            ({"num_boards": 0}, "num_boards from 1 to 1000, got 0"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], wanted: str
    ) -> None:
        with pytest.raises(ValueError, match=wanted):
            Codenames(**params)
