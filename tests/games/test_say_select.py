"""Say-Select: the best score on every draw, what is hidden, scripted players."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.say_select import SaySelect, State
from arena_envs.solvers import optimal_joint_policy

game = SaySelect()
STYLES = ("honest", "greedy", "silent", "optimal")


def after(texts: Sequence[str], paying: tuple[int, ...] = (1, 4)) -> State:
    """The state of the default game after these texts."""
    state = State(paying)
    for text in texts:
        state = game.apply(state, game.parse(state, text))
    return state


def last_state(rules: SaySelect, speaker: str, selector: str, outcome: str) -> State:
    """The end of a game of two scripted players after this draw."""
    bots = [make_bot(f"say_selector:{style}") for style in (speaker, selector)]
    state, rng = rules.apply(rules.initial_state(), outcome), random.Random(0)
    while (player := rules.current_player(state)) != TERMINAL:
        said = bots[player](rules, state, rng)
        assert rules.parse(state, rules.action_text(state, said)) == said
        state = rules.apply(state, said)
    return state


def mean_score(rules: SaySelect, speaker: str, selector: str) -> float:
    """The exact mean score of two scripted players, over all draws."""
    return sum(
        chance * rules.returns(last_state(rules, speaker, selector, str(outcome)))[0]
        for outcome, chance in rules.chance_outcomes(rules.initial_state())
    )


@pytest.mark.parametrize(
    "rules",
    [
        SaySelect(num_balls=2, max_paying=1, num_rounds=2, messages=False),
        SaySelect(num_balls=3, max_paying=3, num_rounds=1),
    ],
    ids=["silent", "short"],
)
def test_other_settings_keep_the_contract(rules: Any, check_contract: Any) -> None:
    check_contract(rules, num_episodes=6)


def test_the_large_instance_has_bounded_texts() -> None:
    rules = SaySelect(num_balls=10, max_paying=10, num_rounds=20, max_message=400)
    state = rules.apply(rules.initial_state(), "1 2 3 4 5 6 7 8 9 10")
    for _ in range(20):
        for text in ("\U000e0041" * 400 + "\nname 10", "select 10"):
            state = rules.apply(state, rules.parse(state, text))
    assert max(len(rules.observe(state, seat)) for seat in (0, 1)) < 17_000
    assert rules.current_player(state) == TERMINAL
    assert rules.returns(state) == (-18, -18)


class TestBestScore:
    @pytest.mark.parametrize("messages", [True, False])
    def test_optimal_players_get_every_paying_ball_of_every_draw(
        self, messages: bool
    ) -> None:
        """No pair does better: each paying ball pays once, and nothing else pays."""
        rules = SaySelect(messages=messages)
        draws = rules.chance_outcomes(rules.initial_state())
        assert len(draws) == 5 + 10 + 10
        assert sum(chance for _, chance in draws) == pytest.approx(1)
        for outcome, _ in draws:
            state = last_state(rules, "optimal", "optimal", str(outcome))
            assert rules.returns(state)[0] == len(state.paying)
        assert mean_score(rules, "optimal", "optimal") == pytest.approx(2)
        assert rules.known_value == "best mean score 2"

    @pytest.mark.parametrize(
        ("num_balls", "max_paying", "num_rounds", "best"),
        [(2, 1, 1, 1), (2, 2, 1, 1), (2, 1, 2, 1), (3, 3, 1, 1)],
    )
    def test_a_search_of_all_pairs_finds_the_best_score(
        self, num_balls: int, max_paying: int, num_rounds: int, best: float
    ) -> None:
        rules = SaySelect(num_balls, max_paying, num_rounds)
        assert rules.best_score == best
        assert mean_score(rules, "optimal", "optimal") == pytest.approx(best)
        value, _ = optimal_joint_policy(rules, max_plans=100_000)
        assert value == pytest.approx(best)


class TestRules:
    def test_a_selected_ball_pays_a_single_time(self) -> None:
        texts = ["name 4", "select 4", "name 4", "select 4", "name 2", "quit"]
        rewards = []
        for number in range(len(texts) + 1):
            state = after(texts[:number])
            rewards.append(game.returns(state))
        assert rewards == [(score, score) for score in (0, 0, 1, 1, 0, 0, 0)]
        assert game.current_player(state) == TERMINAL

    def test_measures(self) -> None:
        texts = ["name 4", "select 4", "name 2", "select 3", "name 1", "quit"]
        assert game.measures(after(texts)) == {
            "efficiency": 0.5,
            "score_share": 0.0,
            "truthfulness": 2 / 3,
            "agreement": 0.5,
        }
        assert set(game.measures(after(())).values()) == {0.0, 1.0}

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "name 6", "want a name from 1 to 5, got 6"),
            ([], "quit", 'want a name such as "name 1" alone in the last line'),
            (["name 1"], "Fine. quit", "want no message with the action"),
            (["name 1"], "name 2", '"select 1" or the answer "quit" and nothing else'),
            (["name 1", "quit"], "name 2", "nobody is to move"),
        ],
    )
    def test_other_texts_are_refused(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        with pytest.raises(IllegalAction, match=wanted):
            game.parse(after(texts), text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"num_balls": 11}, "integer num_balls from 2 to 10, got 11"),
            ({"max_paying": 6}, "integer max_paying from 1 to 5, got 6"),
            ({"num_rounds": 0}, "integer num_rounds from 1 to 20, got 0"),
            ({"max_message": 401}, "integer max_message from 1 to 400, got 401"),
            ({"messages": 1}, "want messages True or False, got 1"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            SaySelect(**params)


class TestWhatIsHidden:
    def test_only_the_speaker_reads_which_balls_pay(self) -> None:
        state = after(["Four!\nname 4", "select 4", "name 2"])
        assert game.observe(state, 0).splitlines() == [
            "You are player_0. Round 2 of 5. The score is 1. player_1 is to move: select a "
            "ball or quit.",
            "Balls that pay 1 now: 1. Every other ball pays -1.",
            'Round 1: you named ball 4, and said: "Four!"',
            "Round 1: player_1 selected ball 4, which paid 1.",
            "Round 2: you named ball 2.",
        ]
        assert game.observe(state, 1).splitlines() == [
            "You are player_1. Round 2 of 5. The score is 1. You are to move: select a ball "
            "or quit.",
            'Round 1: player_0 named ball 4, and said: "Four!"',
            "Round 1: you selected ball 4, which paid 1.",
            "Round 2: player_0 named ball 2.",
        ]

    def test_a_new_draw_fits_what_was_seen_and_follows_the_prior(self) -> None:
        """Of 25 draws these have ball 4 and lack ball 2: {4}, three pairs, three triples."""
        state = after(["name 4", "select 4", "name 2", "select 2"])
        drawn = [game.resample(state, 1, random.Random(seed)) for seed in range(1200)]
        assert all(4 in s.paying and 2 not in s.paying for s in drawn)
        alone = sum(s.paying == (4,) for s in drawn) / len(drawn)
        assert alone == pytest.approx((1 / 15) / (1 / 15 + 6 / 30), abs=0.04)
        assert len({s.paying for s in drawn}) == 7
        assert game.resample(state, 0, random.Random(0)) == state


class TestScriptedPlayers:
    def test_honest_pairs_need_words(self) -> None:
        """Without words they select a ball in all five rounds: 2k - 5, with k = 2 on average."""
        assert mean_score(game, "honest", "honest") == pytest.approx(2)
        wordless = SaySelect(messages=False)
        assert mean_score(wordless, "honest", "honest") == pytest.approx(-1)
        assert mean_score(SaySelect(max_message=20), "honest", "honest") < 0

    @pytest.mark.parametrize(
        ("speaker", "selector", "score"),
        [
            ("greedy", "greedy", -1),  # all five balls, 2k - 5
            ("silent", "silent", 0),  # a ball pays with probability 2 / 5
            ("honest", "optimal", 2),
            ("optimal", "honest", -1),  # who waits for words misses the convention
            ("honest", "greedy", -1),
        ],
    )
    def test_pairs_earn_what_their_conventions_allow(
        self, speaker: str, selector: str, score: float
    ) -> None:
        assert mean_score(game, speaker, selector) == pytest.approx(score)

    @pytest.mark.parametrize("style", STYLES)
    def test_all_finish_long_games_with_few_balls(self, style: str) -> None:
        rules = SaySelect(num_balls=2, max_paying=2, num_rounds=20)
        for other in STYLES:
            for outcome in ("1", "2", "1 2"):
                last_state(rules, style, other, outcome)

    def test_another_style_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among honest, greedy"):
            make_bot("say_selector:kind")
