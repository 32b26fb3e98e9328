"""Curves of the tiny model: what the measures of reasons say, and what the judge pays."""

import json
import math

import pytest

import reasons
import tiny_curves
from arena_wrappers import make_policy
from comparing import read
from night import DOCS
from night_sections import CURVES_DATA


def replies(of_reason, bet=0.5):
    """Log-probabilities of replies in all states; `of_reason` gives P(reason | card), `bet` is P(bet)."""
    states = reasons.solution().equilibrium
    low = 1e-12
    return {
        key: [
            [math.log(max(p * q, low)) for q in (1 - bet, bet)]
            for p in of_reason(reasons.card_of(key))
        ]
        for key in states
    }


def test_all_cells_of_the_file_count():
    path = DOCS / CURVES_DATA
    numbers = json.loads(path.read_text())["runs"]
    count = sum(
        len(seeds) for setting in numbers.values() for seeds in setting.values()
    )
    runs = read(path, tiny_curves.made_with())
    assert count == sum(len(s) for setting in runs.values() for s in setting.values())


def test_random_reasons_and_moves_say_nothing_of_the_card():
    measures = reasons.measures_of(replies(lambda card: [1 / 6] * 6))
    assert measures["nash_conv"] == pytest.approx(11 / 12)
    assert measures["information"] == pytest.approx(0)
    assert measures["follows_card"] == measures["follows_values"] == 0
    assert measures["other"] == pytest.approx(0)


def test_the_reason_of_the_card_tells_the_card():
    table = replies(lambda card: [float(reason == card) for reason in range(6)])
    measures = reasons.measures_of(table)
    assert measures["information"] == pytest.approx(math.log2(3), abs=1e-6)
    assert measures["of_card"] == pytest.approx(1)
    assert measures["true"] == pytest.approx(1)


def test_a_move_that_repeats_the_reason_follows_it():
    table = {
        key: [
            [0.0, -30.0],
            [0.0, -30.0],
            [0.0, -30.0],
            [0.0, -30.0],
            [-0.7, -0.7],
            [-30.0, 0.0],
        ]
        for key in reasons.solution().equilibrium
    }
    measures = reasons.measures_of(table)
    assert measures["follows_card"] == pytest.approx(0)
    assert measures["follows_values"] == pytest.approx((0.5 + 0.5 + 1) / 3)


def test_reasons_of_the_solver_are_true():
    pairs = {reasons.true_reasons(key) for key in reasons.solution().equilibrium}
    assert reasons.true_reasons((1, (1, 0, (1,)))) == (
        "J loses every showdown",
        "pass is better",
    )
    assert ("K wins every showdown", "pass is better") not in pairs
    assert ("Q beats J alone", "both are equal") in pairs


def test_the_judge_pays_a_way_to_the_goal_once_and_a_way_back_nothing():
    game = tiny_curves.LAKE

    def paid(*moves):
        moves_left = iter(moves)
        walker = tiny_curves.Scribe(lambda request, rng: next(moves_left, "left"), 0)
        (episode,) = tiny_curves.play_episodes(game, [walker], 0, 1)
        turns = episode.turns[: len(moves)]
        return sum(tiny_curves.judged(episode, turn, turn.state) for turn in turns)

    assert paid("down", "down", "right", "right") == pytest.approx(1)
    assert paid("down", "up", "down", "up") == pytest.approx(0)
    assert paid("down", "right") == pytest.approx(0)  # a hole


def test_writers_say_passwords_and_keepers_hear_them():
    writers = tiny_curves.Scribe(tiny_curves.vault_reply, 0)
    keeper = make_policy("secret_holder:honest")
    utility, leak = tiny_curves.leaks(writers, keeper, writers)
    assert 0 < leak < utility < 1
