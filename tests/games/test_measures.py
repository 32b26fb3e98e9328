"""What games measure of an episode, against values worked out by hand."""

from typing import Any

import pytest

from arena_envs import CHANCE, make_game
from arena_envs.games.speaker_listener import SpeakerListener

EPISODES: list[tuple[str, dict[str, Any], list[int], dict[str, float]]] = [
    # 20 + 0 of 40 tokens: a pot of 30, paid 15 + 35 of 60
    (
        "public_goods",
        {"num_players": 2, "multiplier": 1.5, "num_rounds": 1},
        [20, 0],
        {"efficiency": 50 / 60, "contribution": 0.5},
    ),
    # shift 1; 100 % and 30 %, then 0 % and a punishment
    (
        "donor_game",
        {"num_players": 2, "num_rounds": 2, "punishment": True},
        [10, 3, 0, 11],
        {"donation": 1.3 / 4},
    ),
    ("prisoners_dilemma", {}, [0, 1], {"cooperation": 0.5}),
    (
        "iterated_prisoners_dilemma",
        {"num_rounds": 2},
        [0, 0, 1, 0],
        {"cooperation": 0.75},
    ),
    ("matching_pennies", {}, [0, 1], {}),
]


@pytest.mark.parametrize(("id", "params", "actions", "measures"), EPISODES)
def test_measures_are_those_worked_out_by_hand(
    id: str, params: dict[str, Any], actions: list[int], measures: dict[str, float]
) -> None:
    game = make_game(id, **params)
    state, ahead = game.initial_state(), list(actions)
    while ahead:
        if game.current_player(state) == CHANCE:
            state = game.apply(state, game.chance_outcomes(state)[0][0])
        else:
            state = game.apply(state, ahead.pop(0))
    assert dict(game.measures(state)) == pytest.approx(measures)


def test_the_listener_succeeds_when_it_enters_the_goal() -> None:
    game = SpeakerListener()
    state = game.apply(game.initial_state(), game.goals[0])  # a1, below and left of b2
    for action, success in ((0, 0.0), (1, 0.0), (0, 0.0), (2, 1.0)):
        state = game.apply(state, action)
        assert game.measures(state) == {"success": success}


def test_two_fireworks_of_one_card_are_half_of_the_best_score() -> None:
    game = make_game("mini_hanabi")
    state = game.initial_state()
    last = state._replace(fireworks=bytes([1, 1]))
    assert game.measures(last) == {"score_share": 0.5}
    assert game.measures(last._replace(life_tokens=0)) == {"score_share": 0.0}
