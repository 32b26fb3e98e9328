"""Checks of a game's environment, and of its one-seat view."""

import contextlib
import copy
import importlib
import io
import math
import pickle
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from pettingzoo.utils.conversions import aec_to_parallel

from arena_envs.env import GameEnv
from arena_envs.game import (
    AnyAction,
    AnyGame,
)
from arena_envs.testing.sample import Sample, demand

SEEDS = range(5)
MAX_COMPARED = 40  # views of each copy of an environment
GARBAGE: tuple[Any, ...] = (
    None,
    0.0,
    1.5,
    float("nan"),
    "0",
    b"0",
    10**30,
    -1,
    True,
    [],
    [0],
    (),
    {},
    object(),
    np.float64(0),
    np.True_,
    np.array([0]),
    np.array([0, 1]),
    "x" * 10**5,
)


def check_pettingzoo(sample: Sample) -> None:
    """PettingZoo's own API tests accept the environment."""
    game = sample.game
    with _quiet():
        pettingzoo: Any = importlib.import_module("pettingzoo.test")  # not annotated
        pettingzoo.api_test(GameEnv(game), num_cycles=100)
        pettingzoo.seed_test(lambda: GameEnv(game), num_cycles=50)
        if game.simultaneous:
            parallel_env = aec_to_parallel(GameEnv(game))
            pettingzoo.parallel_api_test(parallel_env, num_cycles=50)


def check_seeds(sample: Sample) -> None:
    """One seed gives one episode, in a fresh environment and in one used before."""
    game = sample.game
    used = GameEnv(game)
    before = _global_generators()
    for seed in SEEDS:
        fresh = GameEnv(game)
        for env in (used, fresh):
            env.reset(seed=seed)
        rule = "the same seed and actions give the same episode"
        demand(
            episode_snapshots(used, seed) == episode_snapshots(fresh, seed),
            rule,
            seed,
            fix="Take chance from chance_outcomes alone, and compute everything else from the state.",
        )
    rule = "the global generators of random and numpy are neither read nor written"
    demand(
        _global_generators() == before,
        rule,
        fix="Take chance from chance_outcomes and from the rng of resample alone.",
    )


def check_copies(sample: Sample) -> None:
    """A clone, a deep copy and a pickled copy in mid-episode go on alike."""
    for seed in SEEDS:
        env = env_in_progress(sample.game, seed)
        copies = {
            "clone": env.clone(),
            "deepcopy": copy.deepcopy(env),
            "pickle": pickle.loads(pickle.dumps(env)),
        }
        first = episode_snapshots(env, 0, MAX_COMPARED)
        for name, env_copy in copies.items():
            rule = f"an environment copied by {name} goes on alike"
            demand(
                episode_snapshots(env_copy, 0, MAX_COMPARED) == first,
                rule,
                seed,
                fix="Make the state immutable and picklable, and keep nothing in the game between calls.",
            )


def check_refusals(sample: Sample) -> None:
    """An illegal action is refused by name and changes nothing."""
    game = sample.game
    for seed in SEEDS:
        env = env_in_progress(game, seed)
        if not (legal := env.legal_actions()):
            continue
        if game.num_actions is None:  # any text may be an action
            for action in (a for a in GARBAGE if not isinstance(a, str)):
                _check_refusal(env, action, "want a text")
            continue
        mask = env.observe(env.agent_selection)["action_mask"]
        rule = "the action mask shows the legal actions"
        demand(
            mask.nonzero()[0].tolist() == list(legal),
            rule,
            mask,
            fix="Make legal_actions depend on the state alone.",
        )
        before = snapshot(env)
        illegal = np.flatnonzero(mask == 0)[:100].tolist()
        for action in (*GARBAGE, *illegal):
            _check_refusal(env, action, "legal are")
        demand(
            snapshot(env) == before,
            "a refused action changes nothing",
            seed,
            fix="Make apply return a new state and leave the old one as it is.",
        )


def _check_refusal(env: GameEnv, action: AnyAction, sentence: str) -> None:
    try:
        env.step(action)
    except ValueError as error:
        demand(
            sentence in str(error),
            f"a refusal says {sentence!r}",
            error,
            fix="Leave the check of actions to the environment.",
        )
    else:
        demand(False, "what is no legal action is refused", action)


def check_replay(sample: Sample) -> None:
    """The recorded actions of an episode lead to its state and its returns again."""
    game = sample.game
    for seed in SEEDS:
        env = GameEnv(game)
        env.reset(seed=seed)
        totals = np.array(list(env.rewards.values()))
        rng = random.Random(seed)
        while legal := env.legal_actions():
            env.step(step_argument(env, rng.choice(legal)))
            totals += list(env.rewards.values())
        state = game.initial_state()
        for action in env.actions:
            state = game.apply(state, action)
        demand(
            state == env.game_state,
            "an episode can be replayed",
            state,
            fix="Make apply depend on the state and the action alone.",
        )
        rule = "the rewards of a seat add up to its return"
        close = np.allclose(totals, game.returns(state), atol=1e-9)
        demand(
            close,
            rule,
            totals,
            game.returns(state),
            fix="Make returns give what has been paid since the start of the episode.",
        )


def check_gymnasium(sample: Sample) -> None:
    """Gymnasium's own check accepts the one-seat view of every seat."""
    from gymnasium.envs.registration import load_env_creator
    from gymnasium.utils.env_checker import check_env

    game = sample.game
    # by name, as in the registry: this package knows nothing of the wrappers
    make_seat_env: Any = load_env_creator("arena_wrappers.play:make_seat_env")
    for seat in range(game.num_players):
        with _quiet():
            check_env(make_seat_env(game, seat=seat), skip_render_check=True)


def env_in_progress(game: AnyGame, seed: int) -> GameEnv:
    """An environment some random turns into an episode."""
    env, rng = GameEnv(game), random.Random(seed)
    env.reset(seed=seed)
    for _ in range(seed):
        if legal := env.legal_actions():
            env.step(step_argument(env, rng.choice(legal)))
    return env


def episode_snapshots(env: GameEnv, seed: int, most: float = math.inf) -> list[Any]:
    """All that is shown in an episode of random actions, from now to its end, or `most` times."""
    rng, views = random.Random(seed), [snapshot(env)]
    while len(views) < most and (legal := env.legal_actions()):
        env.step(step_argument(env, rng.choice(legal)))
        views.append(snapshot(env))
    return views


def snapshot(env: GameEnv) -> list[Any]:
    """All that an environment shows to its agents and their trainer now."""
    views = []
    for agent in env.possible_agents:
        observation = env.observe(agent)
        inside = env.observation_space(agent).contains(observation)
        demand(
            inside,
            "an observation lies in its space",
            observation,
            fix="Make observe and features fit the observation space of the environment.",
        )
        values = observation.values()
        views.append([v.tobytes() if hasattr(v, "tobytes") else v for v in values])
    flags = dict(env.terminations), dict(env.truncations), dict(env.rewards)
    return [views, *flags, [*env.actions], env.game_state, [*env.legal_actions()]]


def _global_generators() -> tuple[Any, str]:
    return random.getstate(), repr(np.random.get_state())


def step_argument(env: GameEnv, action: AnyAction) -> Any:
    """The argument of `step` for an action: in language games its text."""
    if env.game.num_actions is None:
        return env.game.action_text(env.game_state, action)
    return action


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides the output and the warnings of other libraries' tests."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
