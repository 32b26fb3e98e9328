"""Public goods game: its payments, and its dilemma by enumeration."""

import itertools
import random
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from arena_envs import TERMINAL, IllegalAction
from arena_envs.games.kits.matrix import State
from arena_envs.games.public_goods import PublicGoods
from arena_envs.solvers import expected_returns, nash_conv, uniform_table

game = PublicGoods()
small = PublicGoods(num_players=2, endowment=2, multiplier=1.5, num_rounds=2)


def played(rules: PublicGoods, rounds: Sequence[Sequence[int]]) -> State:
    state = rules.initial_state()
    for action in itertools.chain(*rounds):
        state = rules.apply(state, action)
    return state


def test_a_round_pays_what_is_kept_and_a_share_of_the_pot() -> None:
    rules = PublicGoods(num_players=3, endowment=10, multiplier=1.5, num_rounds=2)
    state = played(rules, [(10, 2, 0)])  # 18 in the pot, 6 each
    assert rules.returns(state) == (6, 14, 16)
    assert rules.returns(played(rules, [(10, 2, 0), (0, 0, 10)])) == (21, 29, 21)


def test_random_games_pay_the_formula_of_the_page() -> None:
    rng = random.Random(0)
    for _ in range(100):
        rounds = [[rng.randint(0, 20) for _ in range(4)] for _ in range(10)]
        state = played(game, rounds)
        assert game.current_player(state) == TERMINAL
        for seat, paid in enumerate(game.returns(state)):
            exact = sum(20 - c[seat] + Fraction(16, 10) * sum(c) / 4 for c in rounds)
            assert paid == pytest.approx(float(exact))


def test_the_default_game_has_its_known_values() -> None:
    assert game.returns(played(game, [(0,) * 4] * 10)) == (200,) * 4
    together = game.returns(played(game, [(20,) * 4] * 10))
    assert together == pytest.approx([320] * 4)
    assert game.max_turns == 40


@pytest.mark.parametrize(
    ("num_players", "multiplier"), [(2, 1.5), (2, 1.01), (3, 2.9), (3, 1.2)]
)
def test_to_contribute_nothing_is_dominant_and_everything_is_best_for_all(
    num_players: int, multiplier: float
) -> None:
    rules = PublicGoods(num_players, 3, multiplier, num_rounds=1)
    sums = {}
    for others in itertools.product(range(4), repeat=num_players - 1):
        paid = []
        for own in range(4):
            returns = rules.returns(played(rules, [(own, *others)]))
            paid.append(returns[0])
            sums[(own, *others)] = sum(returns)
        assert paid == sorted(paid, reverse=True)
        assert len(set(paid)) == 4
    best = max(sums, key=lambda contributions: sums[contributions])
    assert best == (3,) * num_players
    assert sums[best] == pytest.approx(multiplier * 3 * num_players)


def test_nobody_gains_by_leaving_an_equilibrium_without_contributions() -> None:
    table = {
        key: [1.0] + [0.0] * (len(row) - 1) for key, row in uniform_table(small).items()
    }
    assert nash_conv(small, table) == 0
    assert expected_returns(small, table) == (4, 4)


def nash_conv_of_uniform_play(rules: PublicGoods) -> float:
    """Half the endowment is contributed, and costs its giver 1 - multiplier / N."""
    cost = 1 - rules.multiplier / rules.num_players
    return rules.num_rounds * rules.num_players * cost * rules.endowment / 2


@pytest.mark.parametrize(
    "rules", [small, PublicGoods(3, 1, 2.5, 2), PublicGoods(2, 5, 1.2, 1)], ids=repr
)
def test_uniform_play_is_as_far_from_equilibrium_as_it_contributes(
    rules: PublicGoods,
) -> None:
    distance = nash_conv(rules, uniform_table(rules))
    assert distance == pytest.approx(nash_conv_of_uniform_play(rules))
    assert nash_conv_of_uniform_play(game) == pytest.approx(240)


@pytest.mark.parametrize(
    "rules", [game, small, PublicGoods(10, 7, 1.1, 3), PublicGoods(3, 100, 2.7, 100)]
)
def test_the_bounds_are_reached_or_stated(rules: PublicGoods) -> None:
    n, endowment = rules.num_players, rules.endowment
    free_rider = played(rules, [(0, *[endowment] * (n - 1))] * rules.num_rounds)
    assert rules.returns(free_rider)[0] == rules.max_return
    giver = played(rules, [(endowment, *[0] * (n - 1))] * rules.num_rounds)
    least = rules.multiplier * endowment / n * rules.num_rounds
    assert rules.returns(giver)[0] == pytest.approx(least)
    assert rules.forfeit(free_rider, 0)[0] == rules.min_return == 0


def test_the_text_lists_the_contributions_of_the_rounds_that_are_over() -> None:
    state = played(game, [(20, 0, 5, 5), (0, 1, 2, 3)])
    text = (
        "You are player_1. Round 3 of 10: all players contribute.\n"
        "You contributed 0, 1 and have 53.4.\n"
        "player_2 contributed 5, 2 and has 47.4.\n"
        "player_3 contributed 5, 3 and has 46.4.\n"
        "player_0 contributed 20, 0 and has 34.4."
    )
    assert game.observe(state, 1) == text
    assert game.observe(game.apply(state, 7), 1) == text
    # rounds that are over, with the shares contributed, own seat first
    assert game.features(state, 1)[:15].tolist() == pytest.approx(
        [1, 0, 0.25, 0.25, 1, 1, 0.05, 0.1, 0.15, 0, 0, 0, 0, 0, 0]
    )


def test_features_tell_all_that_is_known_apart() -> None:
    found: dict[Any, Hashable] = {}
    rng = random.Random(0)
    for _ in range(50):
        state = game.initial_state()
        while (seat := game.current_player(state)) != TERMINAL:
            key = game.information_state(state, seat)
            features = (seat, game.features(state, seat).tobytes())
            assert found.setdefault(features, key) == key
            state = game.apply(state, rng.choice(game.legal_actions(state)))
    assert len(found) > 1000


@pytest.mark.parametrize(
    ("text", "action"),
    [("7", 7), (" 07 ", 7), ("7 tokens", 7), ("Contribute 1 token", 1), ("000", 0)],
)
def test_numbers_are_read(text: str, action: int) -> None:
    assert game.parse(game.initial_state(), text) == action


@pytest.mark.parametrize(
    "text", ["21", "-1", "7.5", "seven", "7 8", "tokens", "7 token s"]
)
def test_other_texts_are_no_contribution(text: str) -> None:
    with pytest.raises(IllegalAction, match="want one of"):
        game.parse(game.initial_state(), text)


@pytest.mark.parametrize(
    "rules",
    [small, PublicGoods(10, 12, 9.9, 2), PublicGoods(3, 1, 2, 1)],
    ids=repr,
)
def test_other_parameters_keep_the_contract(
    rules: PublicGoods, check_contract: Any
) -> None:
    check_contract(rules)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_players", value) for value in (1, 11, 2.0, "4", True)),
        *(("endowment", value) for value in (0, 101, 1.5, None)),
        *(("num_rounds", value) for value in (0, 101, 1.5, None)),
        *(("multiplier", value) for value in (1, 4, 0, -2, "2", None, True)),
        *(("multiplier", value) for value in (float("nan"), float("inf"))),
    ],
)
def test_a_parameter_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"want .*{name} .*, got {value!r}"):
        PublicGoods(**{name: value})


def test_the_rules_count_a_single_round_and_token_in_the_singular() -> None:
    text = PublicGoods(endowment=1, num_rounds=1).rules(0)
    assert "a public goods game of 1 round for 4 players" in text
    assert "receives 1 token and contributes 0 to 1 of it" in text
