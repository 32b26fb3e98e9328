"""What the environment of every registered game promises beyond the kit, by id."""

import random
from typing import Any

import numpy as np
import pytest

import arena_envs
from arena_envs import TERMINAL, GameEnv, registration
from arena_envs.testing.environment import episode_snapshots, snapshot, step_argument

IDS = [id for id, entry in registration._entries.items() if not entry.plugin]
all_games = pytest.mark.parametrize("id", IDS)


@all_games
def test_environments_that_are_played_in_turn_do_not_interact(id: str) -> None:
    alone = []
    for seed in range(2):
        env = arena_envs.make(id)
        env.reset(seed=seed)
        alone.append(episode_snapshots(env, seed))
    envs = [arena_envs.make(id), arena_envs.make(id)]
    rngs = [random.Random(seed) for seed in range(2)]
    together: list[list[Any]] = []
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
        together.append([snapshot(env)])
    while any(env.legal_actions() for env in envs):
        for env, rng, seen in zip(envs, rngs, together, strict=True):
            if legal := env.legal_actions():
                env.step(step_argument(env, rng.choice(legal)))
                seen.append(snapshot(env))
    assert together == alone


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("id", ["tic_tac_toe", "leduc_poker", "goofspiel"])
def test_numpy_integers_are_actions(id: str, kind: type[np.integer[Any]]) -> None:
    env, other = arena_envs.make(id), arena_envs.make(id)
    for each in (env, other):
        each.reset(seed=0)
    action = env.legal_actions()[-1]
    env.step(kind(action))
    other.step(action)
    assert snapshot(env) == snapshot(other)
    assert all(type(action) is int for action in env.actions)


@all_games
def test_nobody_plays_after_the_end(id: str) -> None:
    env = arena_envs.make(id)
    env.reset(seed=0)
    while legal := env.legal_actions():
        env.step(step_argument(env, legal[0]))
    returns = env.returns
    with pytest.raises(ValueError, match="can only play None"):
        env.step(0)
    while env.agents:
        env.step(None)
    for action in (0, None):
        with pytest.raises(ValueError, match="no episode is running"):
            env.step(action)
    assert env.returns == returns


def going_on(env: GameEnv) -> Any:
    """An action after which the episode goes on, if there is one."""
    game, state, legal = env.game, env.game_state, env.legal_actions()
    for action in legal:
        if game.current_player(game.apply(state, action)) != TERMINAL:
            return action
    return legal[0]


@all_games
def test_max_turns_truncates(id: str) -> None:
    env = arena_envs.make(id, max_turns=1)
    env.reset(seed=0)
    for _ in range(env.game.num_players if env.game.simultaneous else 1):
        assert not any(env.truncations.values())
        env.step(step_argument(env, going_on(env)))
    ended = env.num_turns == env.game.max_turns  # by its rules, of one round
    assert set(env.truncations.values()) == {not ended}
    assert set(env.terminations.values()) == {ended}


@all_games
def test_a_forfeit_ends_the_episode_and_pays_what_the_rules_say(id: str) -> None:
    for agent in arena_envs.make(id).possible_agents:
        env = arena_envs.make(id)
        env.reset(seed=0)
        env.step(step_argument(env, going_on(env)))
        seat = env.possible_agents.index(agent)
        if env.game.num_players > 2:  # the game goes on
            state = env.game_state
            env.forfeit(env.agent_selection)
            assert env.game.default_action(state) in env.actions
            assert sum(env.num_bad) == 1
            continue
        wanted = tuple(env.game.forfeit(env.game_state, seat))
        env.forfeit(agent)
        assert env.returns == wanted
        assert all(env.terminations.values())
        assert env.forfeited_by == seat


@all_games
def test_each_observation_is_a_part_of_all(id: str) -> None:
    whole, features, text = (
        arena_envs.make(id, observation=content)
        for content in ("all", "features", "text")
    )
    for env in (whole, features, text):
        env.reset(seed=0)
    while True:
        for agent in whole.possible_agents:
            seen = whole.observe(agent)
            assert text.observe(agent) == seen.pop("text")
            part = features.observe(agent)
            assert features.observation_space(agent).contains(part)
            assert text.observation_space(agent).contains(text.observe(agent))
            assert {k: v.tolist() for k, v in part.items()} == {
                k: v.tolist() for k, v in seen.items()
            }
        if not (legal := whole.legal_actions()) or whole.num_turns == 3:
            return
        for env in (whole, features, text):
            env.step(step_argument(env, legal[0]))
