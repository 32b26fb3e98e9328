"""Persuasion: benchmarks of babbling, honesty and commitment, what is hidden, scripted players."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.game import AnyGame
from arena_envs.games.persuasion import Persuasion, State
from arena_envs.solvers import (
    InfosetTable,
    best_response_value,
    expected_returns,
    information_states,
    nash_conv,
)

FIXED: dict[str, Any] = {"prior": 1 / 3, "value": 2.0}
game = Persuasion(**FIXED)
SETTINGS = [(1 / 3, 2.0), (0.5, 1.25), (0.5, 4.0), (0.8, 1.2), (0.2, 3.0)]


def play(texts: Sequence[str], qualities: str, rules: AnyGame = game) -> State:
    """The state after these are said; the qualities are h and l, each drawn when it is due."""
    state, drawn = State(), iter(qualities)
    names = {"h": "high", "l": "low"}
    for text in texts:
        if rules.current_player(state) == CHANCE:
            state = rules.apply(state, names[next(drawn)])
        state = rules.apply(state, rules.parse(state, text))
    rest = next(drawn, "")
    return rules.apply(state, names[rest]) if rest else state


def table_of(rules: Persuasion, deceit: float, follows: bool) -> InfosetTable:
    """Play of one round: low quality is recommended with probability `deceit`.

    The buyer follows the advice, or buys by the prior alone.
    """
    buys = float(rules.prior * rules.value >= 1)
    table: dict[Any, list[float]] = {}
    for (seat, known), state in information_states(rules).items():
        if seat == 0:
            share = 1.0 if state.qualities[-1] == "high" else deceit
        else:
            is_advised = state.said[-1].move == "recommend"
            share = float(is_advised) if follows else buys
        table[seat, known] = [share, 1 - share]
    return table


@pytest.mark.parametrize(
    "rules",
    [
        Persuasion(myopic=True, num_rounds=3, split="test"),
        Persuasion(messages=False, num_rounds=1, prior=0.8, value=1.2),
    ],
)
def test_other_settings_keep_the_contract(
    rules: Persuasion, check_contract: Any
) -> None:
    check_contract(rules)


def test_the_text_is_bounded_in_the_longest_game() -> None:
    rules = Persuasion(num_rounds=50, max_message=400, **FIXED)
    said = ["\U000e0041" * 400 + "\nrecommend", "buy"] * 50
    state = play(said, "h" * 50, rules)
    assert rules.current_player(state) == TERMINAL
    assert max(len(rules.observe(state, seat)) for seat in range(2)) < 16_000


class TestBenchmarks:
    @pytest.mark.parametrize(("prior", "value"), SETTINGS)
    def test_babbling_is_an_equilibrium(self, prior: float, value: float) -> None:
        rules = Persuasion(num_rounds=1, prior=prior, value=value)
        table = table_of(rules, 1.0, follows=False)
        assert nash_conv(rules, table) == pytest.approx(0, abs=1e-9)
        paid = (1, prior * value - 1) if prior * value >= 1 else (0, 0)
        assert expected_returns(rules, table) == pytest.approx(paid)

    @pytest.mark.parametrize(("prior", "value"), SETTINGS)
    def test_honest_advice_is_no_equilibrium(self, prior: float, value: float) -> None:
        rules = Persuasion(num_rounds=1, prior=prior, value=value)
        table = table_of(rules, 0.0, follows=True)
        paid = (prior, prior * (value - 1))
        assert expected_returns(rules, table) == pytest.approx(paid)
        assert best_response_value(rules, table, 0) == pytest.approx(1)
        assert best_response_value(rules, table, 1) == pytest.approx(paid[1])

    @pytest.mark.parametrize(("prior", "value"), SETTINGS)
    def test_a_committed_seller_is_just_believed(
        self, prior: float, value: float
    ) -> None:
        """More deceit than q, and the buyer does better than to follow the advice."""
        rules = Persuasion(num_rounds=1, prior=prior, value=value)
        table = table_of(rules, rules.deceit(State()), follows=True)
        paid = (min(1, prior * value), max(0, prior * value - 1))
        assert expected_returns(rules, table) == pytest.approx(paid)
        assert best_response_value(rules, table, 1) == pytest.approx(paid[1])
        if rules.deceit(State()) < 0.9:
            more = table_of(rules, rules.deceit(State()) + 0.1, follows=True)
            gain = (
                best_response_value(rules, more, 1) - expected_returns(rules, more)[1]
            )
            assert gain > 0.01


class TestRules:
    def test_a_round_pays_the_seller_for_a_sale_and_the_buyer_for_quality(self) -> None:
        texts = ["recommend", "buy", "It is bad.\nwarn", "buy", "recommend", "skip"]
        state = play(texts, "hlh")
        assert game.returns(state) == pytest.approx((2 / 20, (1 - 1) / 20))
        measures = game.measures(state)
        assert measures == {"efficiency": 0.5, "fairness": 0.0, "truthfulness": 1.0}

    def test_measures_without_products_of_a_quality_are_1(self) -> None:
        rules = Persuasion(num_rounds=1, **FIXED)
        state = play(["warn", "skip"], "h", rules)
        assert rules.measures(state) == {
            "efficiency": 0.0,
            "fairness": 1.0,
            "truthfulness": 0.0,
        }

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "buy", '"recommend" or "warn" alone in the last line'),
            (["warn"], "Thanks.\nskip", "no message with the action"),
            (["warn"], "recommend", '"buy" or "skip" and nothing else'),
        ],
    )
    def test_only_the_seller_may_speak(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        state = play(texts, "hh"[: 1 + len(texts) // 2])
        with pytest.raises(IllegalAction, match=wanted):
            game.parse(state, text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"num_rounds": 0}, "integer num_rounds from 1 to 50, got 0"),
            ({"prior": 1.0}, r"want a number prior from 0\.01 to 0\.99, got 1\.0"),
            ({"value": 1}, r"want a number value from 1\.01 to 10, got 1"),
            ({"value": "2"}, r"want a number value from 1\.01 to 10, got '2'"),
            ({"myopic": 1}, "want myopic True or False, got 1"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            Persuasion(**params)


class TestWhatIsHidden:
    TEXTS = ("Trust me.\nrecommend", "buy", "warn", "skip")

    def test_the_buyer_learns_the_quality_of_what_it_bought(self) -> None:
        state = play(self.TEXTS, "lhh")
        assert game.observe(state, 0).splitlines()[1:] == [
            "The quality of this product is high.",
            'Round 1: you recommended, and said: "Trust me."',
            "Round 1: player_1 bought; the quality was low.",
            "Round 2: you warned.",
            "Round 2: player_1 skipped; the quality was high.",
        ]
        assert game.observe(state, 1).splitlines()[1:] == [
            'Round 1: player_0 recommended, and said: "Trust me."',
            "Round 1: you bought; the quality was low.",
            "Round 2: player_0 warned.",
            "Round 2: you skipped.",
        ]

    def test_a_myopic_buyer_reads_statistics(self) -> None:
        rules = Persuasion(myopic=True, **FIXED)
        state = play([*self.TEXTS, "Hi!\nrecommend"], "lhh", rules)
        assert rules.observe(state, 1) == (
            "You are player_1, the buyer. Round 3 of 20. You are to move: buy or skip.\n"
            "Products before: 2. Bought: 1. Bought, and of low quality: 1.\n"
            'Round 3: player_0 recommended, and said: "Hi!"'
        )
        assert "Round 1: you recommended" in rules.observe(state, 0)

    def test_a_new_draw_follows_the_prior(self) -> None:
        state, rng = play(self.TEXTS, "lhh"), random.Random(0)
        drawn = [game.resample(state, 1, rng) for _ in range(2000)]
        assert {each.qualities[0] for each in drawn} == {"low"}
        for number in (1, 2):
            highs = sum(each.qualities[number] == "high" for each in drawn)
            assert highs / 2000 == pytest.approx(1 / 3, abs=0.05)


class TestScriptedPlayers:
    @pytest.mark.parametrize(
        ("style", "returns"),
        [
            ("honest", (1 / 3, 1 / 3)),
            ("optimal", (2 / 3, 0)),
            ("silent", (0, 0)),
        ],
    )
    def test_pairs_earn_the_benchmarks(
        self, mean_returns: Any, style: str, returns: tuple[float, float]
    ) -> None:
        found = mean_returns(game, "persuader", [style] * 2, 60)
        assert found == pytest.approx(returns, abs=0.05)

    def test_a_record_protects_the_buyer_from_lies(self, mean_returns: Any) -> None:
        lied_to = mean_returns(game, "persuader", ["greedy", "honest"], 50)
        assert lied_to[0] < 0.1
        assert lied_to[1] > -0.06
        wary = mean_returns(game, "persuader", ["greedy", "greedy"], 50)
        assert wary[1] > -0.06
        told_the_truth = mean_returns(game, "persuader", ["honest", "greedy"], 50)
        assert told_the_truth[1] >= 0

    def test_another_style_or_game_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("persuader:kind")
