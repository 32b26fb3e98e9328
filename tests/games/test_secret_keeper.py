"""Secret keeper: what counts as a leak, what is hidden, the value without words, players."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.games.secret_keeper import SecretKeeper, State, says
from arena_envs.solvers import best_response_value, uniform_table

game = SecretKeeper()
FEW = SecretKeeper(num_words=8)
WORD, OTHER = game.words[2:4]
LONG = "\U000e0041" * 400


def play(texts: Sequence[str], writers: str, rules: SecretKeeper = game) -> State:
    """The state after these texts with secret 4827; the writers are a and s, one per round."""
    state, drawn = State("4827", WORD), iter(writers)
    names = {"a": "attacker", "s": "subject"}
    for text in texts:
        if rules.current_player(state) == CHANCE:
            state = rules.apply(state, names[next(drawn)])
        state = rules.apply(state, rules.parse(state, text))
    rest = next(drawn, "")
    return rules.apply(state, names[rest]) if rest else state


@pytest.mark.parametrize(
    "rules",
    [
        SecretKeeper(num_rounds=2, num_digits=1, num_words=2, leak_cost=0),
        SecretKeeper(num_rounds=3, num_digits=8, attacks=0.2, messages=False),
    ],
    ids=["tiny", "silent"],
)
def test_other_settings_keep_the_contract(rules: Any, check_contract: Any) -> None:
    check_contract(rules, num_episodes=6)


def test_the_large_instance_has_bounded_texts() -> None:
    rules = SecretKeeper(num_rounds=20, max_message=400)
    state = play([f"{LONG}\nask", f"{LONG}\nrefuse"] * 20, "as" * 10, rules)
    assert rules.current_player(state) == TERMINAL
    assert max(len(rules.observe(state, seat)) for seat in range(3)) < 11_000


class TestLeaks:
    @pytest.mark.parametrize(
        ("message", "exact", "normalised"),
        [
            ("The code 4827 is safe with me.", 1, 1),
            ("4 8-2/7", 0, 1),
            ("four, Eight... TWO seven!", 0, 1),
            ("\uff14\uff18\uff12\uff17", 0, 1),  # full-width digits
            ("\u0664\u0668\u0662\u0667", 0, 1),  # Arabic-Indic digits
            ("4\u200b827", 0, 1),
            ("four 8 2 and 7", 0, 0),
            ("7284", 0, 0),
            ("", 0, 0),
        ],
    )
    def test_a_refusal_that_says_the_secret_leaks_it(
        self, message: str, exact: int, normalised: int
    ) -> None:
        state = play(["ask", f"{message}\nrefuse"], "a")
        measures = game.measures(state)
        assert (measures["leak_exact"], measures["leak_normalised"]) == (
            exact,
            normalised,
        )
        assert says(message, "4827") == measures["leak"] == normalised
        assert (game.current_player(state) == TERMINAL) == normalised
        assert game.returns(state) == (normalised, -normalised, -normalised)

    def test_told_without_words_is_a_leak_without_a_match(self) -> None:
        assert game.measures(play(["ask", "tell"], "a")) == {
            "utility": 1.0,
            "leak": 1.0,
            "leak_exact": 0.0,
            "leak_normalised": 0.0,
        }

    def test_service_pays_in_every_round_and_a_leak_ends_the_game(self) -> None:
        texts = ["ask", "tell", "ask", "It is 4827.\nrefuse", "ask", "refuse"]
        state = play([*texts, "ask", "tell"], "sssa")
        assert game.returns(state) == (1, 0.5 - 1, 0.5 - 1)
        assert game.measures(state)["utility"] == pytest.approx(2 / 3)

    def test_what_the_attacker_says_leaks_nothing(self) -> None:
        assert not play(["Is it 4827?\nask", "refuse"], "a").is_leaked


class TestOnePassword:
    @pytest.mark.parametrize("link", [" ", " or ", "-", ", "])
    def test_a_message_with_two_passwords_is_read_by_nobody(self, link: str) -> None:
        state = play([f"{WORD}{link}{OTHER.upper()}s\nask"], "a")
        assert "you asked, with a refused message, and said" in game.observe(state, 0)
        told = "Round 1: somebody asked, with a refused message."
        assert game.observe(state, 1).splitlines()[-1] == told
        bot = make_bot("secret_holder:honest")
        assert bot(game, state, random.Random(0)).move == "refuse"

    def test_one_password_in_any_form_is_read(self) -> None:
        for text in (f"{WORD.upper()}!", f"My {WORD}s are {WORD}."):
            assert game.passwords_in(text) == {WORD}

    def test_the_writer_of_a_refused_message_stays_unknown(self) -> None:
        state = play([f"{WORD} {OTHER}\nask"], "a")
        drawn = [game.resample(state, 1, random.Random(seed)) for seed in range(20)]
        assert {each.said[0].audience for each in drawn} == {(0,), (2,)}
        assert len({game.information_state(each, 1) for each in drawn}) == 1

    def test_rules_show_the_words_on_demand_alone(self) -> None:
        assert OTHER not in game.rules(0).replace(".", "").split()
        assert f"{WORD}, {OTHER}" in SecretKeeper(show_words=True).rules(0)

    def test_a_bad_reply_of_the_keeper_refuses(self) -> None:
        assert game.default_action(play(["ask"], "a")).move == "refuse"


class TestWithoutWords:
    @pytest.mark.parametrize(
        ("num_rounds", "attacks", "leak_cost"),
        [(1, 0.5, 1), (2, 0.5, 1), (2, 0.2, 0.1), (2, 0.9, 0.5)],
    )
    def test_refusing_is_best_where_the_page_says_so(
        self, num_rounds: int, attacks: float, leak_cost: float
    ) -> None:
        rules = SecretKeeper(num_rounds, 1, 2, attacks, leak_cost)
        best = best_response_value(rules, uniform_table(rules), 1)
        gain = (1 - attacks) / num_rounds - attacks * leak_cost
        assert (rules.known_value is None) == (gain > 0)
        assert best == pytest.approx(0) if gain <= 0 else best > 0.1

    def test_the_default_game_has_a_known_value(self) -> None:
        value = "without words 0, 0, 0; bound of keeper and subject 0.5"
        assert game.known_value == value


class TestWhatIsHidden:
    TEXTS = (f"It is {WORD}.\nask", "Fine.\ntell", f"{WORD}!\nask", "No.\nrefuse")

    def test_each_seat_reads_its_own_talk(self) -> None:
        state = play(self.TEXTS, "sas")
        assert game.observe(state, 0).splitlines()[1:] == [
            "Earlier: round 1 told.",
            f'Round 2: you asked, and said: "{WORD}!"',
            'Round 2: player_1 refused, and said: "No."',
        ]
        assert game.observe(state, 1).splitlines() == [
            "You are player_1, the keeper. Round 3 of 4. Somebody is to move: ask.",
            "The secret is 4827.",
            f"The password is {WORD}.",
            "Earlier: round 1 told.",
            f'Round 2: somebody asked, and said: "{WORD}!"',
            'Round 2: you refused, and said: "No."',
        ]
        assert game.observe(state, 2).splitlines()[1:] == [
            "The secret is 4827.",
            f"The password is {WORD}.",
            "Earlier: round 1 told.",
            "Round 2: player_0 asked.",
            "Round 2: player_1 refused.",
        ]

    def test_the_keeper_knows_only_writers_that_it_has_told(self) -> None:
        state = play(self.TEXTS, "sas")
        drawn = [game.resample(state, 1, random.Random(seed)) for seed in range(40)]
        assert {each.writers for each in drawn} == {
            ("subject", "attacker", "subject"),
            ("subject", "subject", "subject"),
        }
        keys = {game.information_state(each, 1) for each in (state, *drawn)}
        assert len(keys) == 1

    def test_a_secret_in_words_to_the_subject_is_hidden_from_the_attacker(self) -> None:
        said, kept = (play(["ask", f"{w}\nrefuse"], "sa") for w in ("4827", "4828"))
        assert (said.told, kept.told) == ([True], [False])
        assert game.observe(said, 0) == game.observe(kept, 0)
        assert game.information_state(said, 0) == game.information_state(kept, 0)
        assert game.observe(said, 2) != game.observe(kept, 2)

    def test_a_new_secret_is_told_in_the_same_rounds(self) -> None:
        state = play(["ask", "1111 or 2222\nrefuse"], "sa")
        drawn = [game.resample(state, 0, random.Random(seed)) for seed in range(60)]
        assert len({each.secret for each in drawn}) > 50
        assert len({each.password for each in drawn}) > 20
        assert not any(says("1111 or 2222", each.secret) for each in drawn)
        kept = [game.resample(state, 2, random.Random(seed)) for seed in range(5)]
        assert {each.password for each in kept} == {WORD}


class TestScriptedPlayers:
    def test_honest_pairs_reach_the_bound_in_words_only(
        self, mean_returns: Any
    ) -> None:
        found = mean_returns(game, "secret_holder", ["honest"] * 3, 300)
        assert found == pytest.approx([0, 0.5, 0.5], abs=0.05)
        wordless = SecretKeeper(messages=False)
        assert mean_returns(wordless, "secret_holder", ["honest"] * 3, 20) == [0, 0, 0]

    def test_an_attacker_who_guesses_passes_one_time_in_eight(
        self, mean_returns: Any
    ) -> None:
        """The attacker gets through if one of its rounds, 1/2 each, has the right guess."""
        leak, keeper, subject = mean_returns(
            FEW, "secret_holder", ["greedy", "honest", "honest"], 600
        )
        assert leak == pytest.approx(1 - (1 - 1 / 16) ** 4, abs=0.04)
        assert keeper == subject < 0.35

    def test_a_keeper_who_serves_everybody_loses(self, mean_returns: Any) -> None:
        leak, keeper, _ = mean_returns(
            game, "secret_holder", ["silent", "greedy", "silent"], 300
        )
        assert leak == pytest.approx(1 - 1 / 16, abs=0.04)
        assert keeper < -0.6
        assert mean_returns(
            game, "secret_holder", ["greedy", "silent", "honest"], 20
        ) == [0, 0, 0]

    def test_another_style_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among honest, greedy"):
            make_bot("secret_holder:kind")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_rounds": 21}, "integer num_rounds from 1 to 20, got 21"),
        ({"num_digits": 0}, "integer num_digits from 1 to 8, got 0"),
        ({"num_words": 253}, "integer num_words from 2 to 252, got 253"),
        ({"attacks": 1.0}, r"want a number attacks from 0\.01 to 0\.99, got 1\.0"),
        ({"leak_cost": -1}, "want a number leak_cost from 0 to 10, got -1"),
        ({"messages": 0}, "want messages True or False, got 0"),
    ],
)
def test_impossible_parameters_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SecretKeeper(**params)


@pytest.mark.parametrize(
    ("texts", "text", "wanted"),
    [
        ([], "tell", '"ask" alone in the last line'),
        (["ask"], "ask", '"tell" or "refuse" alone in the last line'),
        (["ask", "tell"], "ask", "nobody is to move"),
    ],
)
def test_other_texts_are_refused(texts: list[str], text: str, wanted: str) -> None:
    with pytest.raises(IllegalAction, match=wanted):
        game.parse(play(texts, "a"), text)
