"""Rounds: exact values with every option, and when it pays."""

from typing import Any

import pytest

from arena_envs import CHANCE, TERMINAL
from arena_envs.games.rounds import Rounds
from arena_envs.testing import check_game, draw_sample
from arena_envs.testing.rules import check_pays

SMALL: dict[str, Any] = {"num_rounds": 3, "num_symbols": 2, "num_answers": 2}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_players": 2},
    {"stakes": "falling"},
    {"stakes": "rising", "delay": 1},
    {"delay": 3},
    {"wage": 2},
    {"luck": 5},
    {"luck": 5, "luck_after": "last", "delay": 3},
    {"advance": 5},
]


def value(game: Rounds, best: bool) -> float:
    """Expected return of right answers, or of random ones, by the rules alone."""

    def of(state: Any) -> float:
        player = game.current_player(state)
        if player == TERMINAL:
            return game.returns(state)[0]
        if player == CHANCE:
            outcomes = game.chance_outcomes(state)
            return sum(p * of(game.apply(state, o)) for o, p in outcomes)
        found = [of(game.apply(state, a)) for a in game.legal_actions(state)]
        return max(found) if best else sum(found) / len(found)

    return of(game.initial_state())


@pytest.mark.parametrize("options", OPTIONS)
def test_the_known_value_is_exact(options: dict[str, Any]) -> None:
    game = Rounds(**SMALL, **options)
    values = f"right answers {value(game, True):g}; random answers "
    assert game.known_value == values + f"{value(game, False):g}"


@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_game(Rounds(**SMALL, **options), num_episodes=6)


@pytest.mark.parametrize("options", [*OPTIONS, {"luck": 5, "luck_after": "last"}])
def test_it_declares_when_it_pays(options: dict[str, Any]) -> None:
    game = Rounds(**SMALL, **options)
    check_pays(draw_sample(game, 20, 0))
    assert (game.pays == "end") == (options.get("delay") == 3)


def paid(game: Rounds, answers: str, drawn: int = 0) -> list[float]:
    """What is paid after each round: symbol A, and r for right, w for wrong answers."""
    state, found = game.initial_state(), list[float]()
    for answer in answers:
        before = game.returns(state)[0]
        right = game.right_answer(0)
        number = state.number
        state = game.apply(state, 0)
        state = game.apply(state, right if answer == "r" else 1 - right)
        if state.number == number:
            state = game.apply(state, drawn)
        found.append(game.returns(state)[0] - before)
    return found


@pytest.mark.parametrize(
    ("options", "drawn", "payments"),
    [
        ({}, 0, [1, 0, 1]),
        ({"stakes": "falling"}, 0, [4, 0, 1]),
        ({"stakes": "rising", "delay": 1}, 0, [0, 1, 4]),
        ({"delay": 64}, 0, [0, 0, 2]),
        ({"wage": 2}, 0, [3, 2, 3]),
        ({"luck": 5}, 5, [6, 0, 1]),
        ({"luck": 5, "luck_after": "last"}, -5, [1, 0, -4]),
        ({"advance": 5}, -5, [-4, 0, 6]),
    ],
)
def test_payments_by_hand(
    options: dict[str, Any], drawn: int, payments: list[float]
) -> None:
    assert paid(Rounds(**SMALL, **options), "rwr", drawn) == payments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stakes": "high"}, "want stakes among equal, falling, rising, got 'high'"),
        ({"stakes": "falling", "num_rounds": 17}, "num_rounds from 1 to 16, got 17"),
        ({"advance": 5, "luck": 1}, "want an advance with several rounds and without"),
        ({"advance": 5, "num_rounds": 1}, "want an advance with several rounds"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rounds(**options)
