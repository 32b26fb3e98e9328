"""Rounds in which seats choose at the same time, in a game made for it."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, parallel_api_test
from pettingzoo.utils.conversions import aec_to_parallel

from arena_envs import TERMINAL, BaseGame, GameEnv
from arena_envs.game import legal_actions_of

State = tuple[tuple[int, ...], ...]  # the choices of each round


@dataclass(frozen=True)
class Bids(BaseGame[State, int]):
    """Two rounds of bids; nobody repeats an own bid, and the highest bid wins the round."""

    num_players: int = 3

    num_actions = 3
    kind = "mixed"
    information = "imperfect"
    simultaneous = True
    min_return = 0.0
    max_return = 2.0
    max_turns = 6

    def initial_state(self) -> State:
        return ((),)

    def current_player(self, state: State) -> int:
        return TERMINAL if len(state) == 3 else len(state[-1])

    def chance_outcomes(self, state: State) -> Any:
        return ()

    def legal_actions(self, state: State) -> Any:
        player = self.current_player(state)
        if player < 0:
            return ()
        return [a for a in range(3) if a not in [r[player] for r in state[:-1]]]

    def apply(self, state: State, action: int) -> State:
        last = (*state[-1], action)
        over = len(last) == self.num_players
        return (*state[:-1], last, ()) if over else (*state[:-1], last)

    def returns(self, state: State) -> Any:
        return [
            float(sum(bids[seat] == max(bids) for bids in state[:-1]))
            for seat in range(self.num_players)
        ]

    def information_state(self, state: State, seat: int) -> Any:
        return (state[:-1], state[-1][seat : seat + 1])

    def observe(self, state: State, seat: int) -> str:
        return f"Rounds so far: {state[:-1]}"

    def features(self, state: State, seat: int) -> Any:
        return np.full(1, len(state), np.float32)

    def action_text(self, state: State, action: int) -> str:
        return str(action)

    def rules(self, seat: int) -> str:
        return "Bid 0, 1 or 2, each once."


def masks(env: GameEnv) -> list[list[int]]:
    return [env.observe(a)["action_mask"].tolist() for a in env.possible_agents]


def test_every_seat_that_has_not_chosen_shows_its_mask() -> None:
    env = GameEnv(Bids())
    env.reset(seed=0)
    assert masks(env) == [[1, 1, 1]] * 3
    env.step(2)
    assert masks(env) == [[0, 0, 0], [1, 1, 1], [1, 1, 1]]
    env.step(1)
    env.step(0)
    assert masks(env) == [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    while legal := env.legal_actions():
        env.step(legal[0])
    assert masks(env) == [[0, 0, 0]] * 3


def test_a_seat_that_may_not_choose_has_no_legal_action() -> None:
    game, state = Bids(), ((2,),)
    assert [list(legal_actions_of(game, state, seat)) for seat in range(3)] == [
        [],
        [0, 1, 2],
        [0, 1, 2],
    ]
    assert not legal_actions_of(game, ((0, 0, 0), (1, 1, 1), ()), 0)


@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")
def test_pettingzoo_takes_it_as_a_parallel_environment() -> None:
    env = GameEnv(Bids())
    assert env.metadata["is_parallelizable"] is True
    api_test(env, num_cycles=50)
    parallel_api_test(aec_to_parallel(env), num_cycles=50)


@pytest.mark.parametrize("max_turns", [1, 2, 3])
def test_a_limit_waits_for_the_end_of_the_round(max_turns: int) -> None:
    env = GameEnv(Bids(), max_turns=max_turns)
    env.reset(seed=0)
    for _ in range(2):
        env.step(0)
        assert not any(env.truncations.values())
    env.step(0)
    assert all(env.truncations.values())
    assert not any(env.terminations.values())


def test_the_parallel_view_pays_all_seats_at_the_end_of_the_round() -> None:
    env = aec_to_parallel(GameEnv(Bids()))
    env.reset(seed=0)
    _, rewards, *_ = env.step({"player_0": 0, "player_1": 2, "player_2": 2})
    assert rewards == {"player_0": 0, "player_1": 1, "player_2": 1}
    choices = {"player_0": 1, "player_1": 0, "player_2": 0}
    _, rewards, terminated, *_ = env.step(choices)
    assert rewards == {"player_0": 1, "player_1": 0, "player_2": 0}
    assert all(terminated.values())


def test_a_copy_in_mid_round_goes_on_alike() -> None:
    env = GameEnv(Bids())
    env.reset(seed=0)
    env.step(1)
    other = env.clone()
    rng, other_rng = random.Random(0), random.Random(0)
    while legal := env.legal_actions():
        env.step(rng.choice(legal))
        other.step(other_rng.choice(other.legal_actions()))
    assert other.returns == env.returns
