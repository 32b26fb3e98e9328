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
from arena_envs.games.codenames import Codenames, State, clashes
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


def won_by_red(red: str, blue: str, num_games: int = 150, mute: bool = False) -> float:
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
        ("clue", "word"),
        [
            *(("CAT", "cat"), ("cats", "cat"), ("knives", "knife"), ("bears", "bear")),
            *(("horse", "horseshoe"), ("shoes", "horseshoe"), ("bearskin", "bear")),
            *(("teddybear", "bear"), ("horseshoes", "horseshoe"), ("baring", "")),
            *(("catalog", ""), ("eant", ""), ("hors", "horseshoe"), ("ho", "")),
        ],
    )
    def test_a_clue_too_close_to_a_word_is_refused(self, clue: str, word: str) -> None:
        state, text = play([]), f"clue {clue} 1"
        if not word:
            assert GAME.parse(state, text).values == (clue, 1)
            return
        with pytest.raises(IllegalAction, match=f"too close to the word '{word}'"):
            GAME.parse(state, text)

    def test_a_word_that_has_left_the_board_may_be_a_clue(self) -> None:
        state = play(["clue bite 1", "guess ant", "stop"])
        assert GAME.parse(state, "clue ants 1").values == ("ants", 1)

    def test_forms_clash_both_ways(self) -> None:
        assert clashes("scissor", "scissors")
        assert clashes("scissors", "scissor")
        assert not clashes("one", "stone")

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
        measures = {"hits": 1 / 3, "found_per_clue": 0.5, "assassin": 1.0}
        assert GAME.measures(play(texts)) == pytest.approx(measures)

    def test_a_team_loses_by_a_forfeit_of_one_of_its_players(self) -> None:
        assert GAME.forfeit(play([]), 1) == (-1, -1, 1, 1)
        assert GAME.forfeit(play([]), 2) == (1, 1, -1, -1)


class TestWhatIsHidden:
    TEXTS = ("clue bite 1", "guess ant", "guess knife", "clue pet 1")

    def test_only_spymasters_read_the_roles(self) -> None:
        state = play(self.TEXTS)
        history = [
            "Guessed: ant (red), knife (neutral).",
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

    @pytest.mark.parametrize(
        ("red", "blue", "low", "high"),
        [
            ("optimal", "optimal", 1, 1),
            ("honest", "silent", 0.9, 1),
            ("silent", "honest", 0, 0.2),
            ("honest", "optimal", 0, 0),
            ("greedy", "honest", 0.2, 0.7),
        ],
    )
    def test_better_codes_win(
        self, red: str, blue: str, low: float, high: float
    ) -> None:
        assert low <= won_by_red(red, blue) <= high

    def test_without_clues_a_code_is_worth_nothing(self) -> None:
        assert won_by_red("honest", "silent", mute=True) < 0.65

    def test_clues_of_the_bots_are_read_on_every_board(self) -> None:
        rules, bot = Codenames(), make_bot("spy:optimal")
        for number in islice(range(rules.num_boards), 0, None, 5):
            state = State(board=number, key="00011nnnx")
            said = bot(rules, state, random.Random(0))
            assert rules.parse(state, rules.action_text(state, said)) == said
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
            ("ant\nbear\nones\ndog", "got 'ones' as word 3"),
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
            ({"num_agents": 6}, "num_agents from 1 to 3, got 6"),
            ({"num_boards": 0}, "num_boards from 1 to 1000, got 0"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], wanted: str
    ) -> None:
        with pytest.raises(ValueError, match=wanted):
            Codenames(**params)
