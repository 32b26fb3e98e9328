"""What the environment of every registered game promises, by the game's id."""

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

import arena_envs
from arena_envs import GameEnv, registration

IDS = [id for id, entry in registration._entries.items() if not entry.plugin]
all_games = pytest.mark.parametrize("id", IDS)
NUM_SEEDS = 10


def record(env: GameEnv, rng: random.Random) -> list[Any]:
    """All that anybody sees from here to the end of the episode, random actions played."""
    seen = [shown(env)]
    while env.agents:
        over = (
            env.terminations[env.agent_selection]
            or env.truncations[env.agent_selection]
        )
        env.step(None if over else rng.choice(env.legal_actions()))
        seen.append(shown(env))
    return seen


def shown(env: GameEnv) -> list[Any]:
    """What an environment shows to its agents and their trainer now."""
    views = []
    for agent in env.possible_agents:
        observation = env.observe(agent)
        assert env.observation_space(agent).contains(observation)
        values = [
            v.tolist() if hasattr(v, "tolist") else v for v in observation.values()
        ]
        views.append(values)
    facts = (env.agents, env.rewards, env.terminations, env.truncations, env.actions)
    return copy.deepcopy([views, *facts, env.game_state, env.legal_actions()])


def advance(env: GameEnv, seed: int, num_turns: int) -> None:
    """Starts an episode and plays so many random turns of it, if it has them."""
    env.reset(seed=seed)
    rng = random.Random(seed)
    for _ in range(num_turns):
        if legal := env.legal_actions():
            env.step(rng.choice(legal))


# it calls spaces of texts unusual
@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo.test.api_test")
@all_games
def test_pettingzoo_accepts_it(id: str) -> None:
    api_test(arena_envs.make(id), num_cycles=200)
    seed_test(lambda: arena_envs.make(id), num_cycles=100)


@all_games
def test_an_object_that_is_used_again_is_like_a_fresh_one(id: str) -> None:
    used = arena_envs.make(id)
    for seed in range(NUM_SEEDS):
        fresh = arena_envs.make(id)
        for env in (used, fresh):
            env.reset(seed=seed)
        assert record(used, random.Random(0)) == record(fresh, random.Random(0))


@all_games
def test_environments_that_are_played_in_turn_do_not_interact(id: str) -> None:
    alone = []
    for seed in range(2):
        env = arena_envs.make(id)
        env.reset(seed=seed)
        alone.append(record(env, random.Random(0)))
    envs = [arena_envs.make(id), arena_envs.make(id)]
    rngs = [random.Random(0), random.Random(0)]
    together: list[list[Any]] = []
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
        together.append([shown(env)])
    while any(env.agents for env in envs):
        for env, rng, seen in zip(envs, rngs, together, strict=True):
            if env.agents:
                legal = env.legal_actions()
                env.step(rng.choice(legal) if legal else None)
                seen.append(shown(env))
    assert together == alone


@all_games
def test_the_global_generators_are_neither_read_nor_written(id: str) -> None:
    def episode() -> list[Any]:
        env = arena_envs.make(id)
        env.reset(seed=0)
        return record(env, random.Random(0))

    random.seed(1)
    np.random.seed(1)
    before = (random.getstate(), repr(np.random.get_state()))
    first = episode()
    assert (random.getstate(), repr(np.random.get_state())) == before
    random.seed(2)
    np.random.seed(2)
    assert episode() == first


@pytest.mark.parametrize(
    "copied",
    [GameEnv.clone, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))],
    ids=["clone", "deepcopy", "pickle"],
)
@all_games
def test_a_copy_in_mid_game_goes_on_alike(
    id: str, copied: Callable[[GameEnv], GameEnv]
) -> None:
    for seed in range(NUM_SEEDS):
        env = arena_envs.make(id)
        advance(env, seed, num_turns=seed % 4)
        other = copied(env)
        first = record(env, random.Random(0))
        assert record(other, random.Random(0)) == first
        for each in (env, other):  # the next episode draws the same chance, too
            each.reset()
        assert record(env, random.Random(0)) == record(other, random.Random(0))


@all_games
def test_a_recorded_episode_can_be_replayed_from_its_actions(id: str) -> None:
    game = arena_envs.make_game(id)
    for seed in range(NUM_SEEDS):
        env = arena_envs.make(id)
        env.reset(seed=seed)
        record(env, random.Random(seed))
        state = game.initial_state()
        for action in env.actions:
            state = game.apply(state, action)
        assert state == env.game_state
        assert tuple(game.returns(state)) == env.returns


GARBAGE = [
    *(
        None,
        1.5,
        0.0,
        "bet",
        "0",
        b"0",
        10**30,
        -1,
        True,
        False,
        [],
        [0],
        (),
        {},
        object(),
    ),
    *(
        np.float64(0),
        np.True_,
        np.array([0]),
        np.array([0, 1]),
        float("nan"),
        "x" * 10**5,
    ),
]


@pytest.mark.parametrize("action", GARBAGE, ids=lambda a: repr(a)[:20])
@all_games
def test_garbage_is_refused_and_changes_nothing(id: str, action: Any) -> None:
    env = arena_envs.make(id)
    is_talk = env.game.num_actions is None
    if is_talk and isinstance(action, str):
        pytest.skip("any text is an action")
    env.reset(seed=0)
    before = shown(env)
    want = "want a text as action" if is_talk else r"player_\d played .*; legal are \["
    with pytest.raises(ValueError, match=want):
        env.step(action)
    assert shown(env) == before


@all_games
def test_no_action_outside_the_mask_is_played(id: str) -> None:
    for seed in range(NUM_SEEDS):
        env = arena_envs.make(id)
        if env.game.num_actions is None:
            pytest.skip("there is no mask")
        advance(env, seed, num_turns=seed % 4)
        if not env.legal_actions():
            continue
        mask = env.observe(env.agent_selection)["action_mask"]
        assert mask.nonzero()[0].tolist() == list(env.legal_actions())
        before = shown(env)
        for action in np.flatnonzero(mask == 0):
            with pytest.raises(ValueError, match="legal are"):
                env.step(int(action))
        assert shown(env) == before


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8])
@all_games
def test_numpy_integers_are_actions(id: str, kind: Callable[[int], Any]) -> None:
    env, other = arena_envs.make(id), arena_envs.make(id)
    if env.game.num_actions is None:
        pytest.skip("actions are texts")
    for each in (env, other):
        each.reset(seed=0)
    action = env.legal_actions()[-1]
    env.step(kind(action))
    other.step(action)
    assert shown(env) == shown(other)
    assert all(type(action) is int for action in env.actions)


@all_games
def test_nobody_plays_after_the_end(id: str) -> None:
    env = arena_envs.make(id)
    env.reset(seed=0)
    while legal := env.legal_actions():
        env.step(legal[0])
    returns = env.returns
    with pytest.raises(ValueError, match="can only play None"):
        env.step(0)
    while env.agents:
        env.step(None)
    for action in (0, None):
        with pytest.raises(ValueError, match="no episode is running"):
            env.step(action)
    assert env.returns == returns


@all_games
def test_max_turns_truncates(id: str) -> None:
    env = arena_envs.make(id, max_turns=1)
    env.reset(seed=0)
    env.step(env.legal_actions()[0])
    assert all(env.truncations.values())
    assert not any(env.terminations.values())
    assert record(env, random.Random(0))[-1][1] == []


@all_games
def test_a_forfeit_ends_the_episode_and_pays_what_the_rules_say(id: str) -> None:
    for agent in arena_envs.make(id).possible_agents:
        env = arena_envs.make(id)
        env.reset(seed=0)
        env.step(env.legal_actions()[0])
        seat = env.possible_agents.index(agent)
        wanted = tuple(env.game.forfeit(env.game_state, seat))
        env.forfeit(agent)
        assert env.returns == wanted
        assert all(env.terminations.values())
        assert env.forfeited_by == seat


@all_games
def test_the_rewards_of_every_seat_add_up_to_its_return(id: str) -> None:
    for seed in range(NUM_SEEDS):
        env = arena_envs.make(id)
        env.reset(seed=seed)
        totals = np.array(list(env.rewards.values()))
        while legal := env.legal_actions():
            env.step(random.Random(seed).choice(legal))
            totals += list(env.rewards.values())
        assert totals == pytest.approx(env.game.returns(env.game_state))
