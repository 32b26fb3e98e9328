"""`SeatEnv`: one seat as a Gymnasium environment, for trainers that know nothing else."""

import copy
import random
import runpy
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import arena_envs
from arena_envs import GameEnv
from arena_wrappers import (
    NoReplyError,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    SeatEnv,
)
from arena_wrappers.play import SeatSession, make_seat_env
from arena_wrappers.prompts import legal_texts

REPRESENTATIVE = runpy.run_path(str(Path(__file__).parents[2] / "representative.py"))[
    "REPRESENTATIVE"
]
SEATS = [
    (name, seat)
    for name, (id, params) in REPRESENTATIVE.items()
    for seat in range(arena_envs.make_game(id, **params).num_players)
]


def gym_id(id):
    name, version = id.rsplit("-", 1)
    return f"arena/{''.join(word.capitalize() for word in name.split('_'))}-{version}"


def make_representative(name, seat):
    id, params = REPRESENTATIVE[name]
    return gymnasium.make(gym_id(id), seat=seat, observation="all", **params)


def plain(info):
    """An info that `==` compares."""
    mask = info.get("action_mask", np.array([]))
    return {**info, "action_mask": mask.tolist()}


def legal_actions(env):
    """Integers; in a language game, canonical texts."""
    if env.unwrapped.env.game.num_actions is None:
        rules = env.unwrapped.env
        return legal_texts(rules.game, rules.game_state) or ["over"]
    return np.flatnonzero(env.unwrapped.action_masks()).tolist()


def episode(env, seed, rng):
    """Plays legal moves to the end; all that was seen."""
    observation, info = env.reset(seed=seed)
    seen, over = [(observation["text"], plain(info))], False
    while not over:
        observation, reward, *over, info = env.step(rng.choice(legal_actions(env)))
        seen.append((observation["text"], reward, over, plain(info)))
        over = any(over)
    return seen


@pytest.mark.parametrize("id", ["kuhn_poker-v0", "goofspiel-v0", "bargaining-v1"])
def test_gymnasiums_own_test_passes(id):
    """The contract of games has it of every game and seat; this is by gymnasium's id."""
    env = gymnasium.make(gym_id(id))
    with warnings.catch_warnings():
        # a float32 observation without bounds, which features are
        warnings.filterwarnings("ignore", ".*A Box observation space m", UserWarning)
        check_env(env.unwrapped)


@pytest.mark.parametrize("seat", [0, 1])
def test_a_language_game_passes_too(telephone, seat):
    env = SeatEnv(lambda: GameEnv(telephone), seat, RandomPolicy())
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert set(info) == {"agent", "legal"}
    rewards = []
    terminated = False
    while not terminated:
        _, reward, terminated, truncated, info = env.step("yes, <|im_end|> of course")
        rewards.append(reward)
        assert not truncated
        assert "illegal_action" not in info
    assert sum(rewards) <= env.env.returns[seat]
    with pytest.raises(TypeError, match="no action mask"):
        env.action_masks()


def test_text_that_a_language_game_refuses_is_a_forfeit(telephone):
    env = SeatEnv(lambda: GameEnv(telephone), 0, RandomPolicy())
    env.reset(seed=0)
    *_, terminated, _, info = env.step("")
    assert terminated
    assert info["illegal_action"] is True


@pytest.mark.parametrize(("name", "seat"), SEATS)
def test_the_same_seed_is_the_same_episode(name, seat):
    one, two = (make_representative(name, seat) for _ in range(2))
    for seed in range(5):
        want = episode(one, seed, random.Random(seed))
        assert episode(two, seed, random.Random(seed)) == want
        assert episode(one, seed, random.Random(seed)) == want
    texts = {tuple(s[0] for s in episode(one, n, random.Random(0))) for n in range(20)}
    assert len(texts) > 1


@pytest.mark.parametrize(("name", "seat"), SEATS)
def test_unseeded_resets_continue_the_generator(name, seat):
    one, two = (make_representative(name, seat) for _ in range(2))
    for env in (one, two):
        env.reset(seed=7)
    for _ in range(5):
        got = [episode(env, None, random.Random(0)) for env in (one, two)]
        assert got[0] == got[1]


def test_global_randomness_is_left_alone():
    before = random.getstate(), np.random.get_state()[1].tolist()
    env = make_representative("three seats", 0)
    episode(env, 0, random.Random(0))
    episode(env, None, random.Random(0))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


@pytest.mark.parametrize(("name", "seat"), SEATS)
def test_masks_say_what_is_legal_and_allow_all_after_the_end(name, seat):
    env = make_representative(name, seat).unwrapped
    if env.env.game.num_actions is None:
        pytest.skip("texts have no mask")
    rng = random.Random(0)
    env.reset(seed=0)
    over = False
    while not over:
        mask = env.action_masks()
        assert mask.dtype == np.int8
        assert mask.sum() >= 1
        # the others may have ended the episode before this seat had a turn
        legal = env.env.legal_actions() or range(env.action_space.n)
        assert np.flatnonzero(mask).tolist() == list(legal)
        *_, terminated, truncated, _ = env.step(rng.choice(np.flatnonzero(mask)))
        over = terminated or truncated
    assert env.action_masks().tolist() == [1] * env.action_space.n
    with pytest.raises(ValueError, match="call reset"):
        env.step(0)


@pytest.mark.parametrize("action", [9, -1, 100, 1.5, None, np.int64(77)])
def test_an_illegal_action_is_a_forfeit(action):
    env = gymnasium.make("arena/KuhnPoker-v0").unwrapped
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (-2.0, True, False)
    assert info["illegal_action"] is True
    assert info["outcome"]["forfeited_by"] == 0


def test_rewards_are_what_is_paid_until_the_next_turn(tolls):
    """Gift or not, this seat's rewards sum to its return less what came before."""
    pay_two = ScriptedPolicy(lambda request: "pay 2")
    for seed in range(6):
        env = SeatEnv(lambda: GameEnv(tolls), 1, pay_two)
        env.reset(seed=seed)
        assert env.env.returns[1] == 2.0  # seat 0 has paid before the first turn
        _, first, terminated, *_ = env.step(1)
        assert (first, terminated) == (-1.0 + 2.0, False)
        _, second, terminated, *_ = env.step(0)
        assert (second, terminated) == (2.0 + 5.0, True)


def test_opponents_are_given_in_seat_order(tolls):
    others = [ScriptedPolicy(["pay 2"] * 3, "a"), ScriptedPolicy(["pay 1"] * 3, "b")]
    env = SeatEnv(lambda: GameEnv(tolls), 1, others)
    env.reset(seed=0)
    env.step(0)
    assert env.env.actions[1:] == [2, 0, 1, 2]


@pytest.mark.parametrize("reply", [Reply("raise"), Reply("bet", truncated=True)])
def test_an_opponent_that_breaks_the_rules_forfeits(reply):
    opponent: Any = ScriptedPolicy("")
    opponent.act = lambda requests: [reply]
    env = SeatEnv(lambda: arena_envs.make("kuhn_poker"), 0, opponent)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(1)
    assert (reward, terminated, "illegal_action" in info) == (2.0, True, False)
    assert info["outcome"] == {
        "returns": [2.0, -2.0],
        "measures": {},
        "forfeited_by": 1,
    }


@pytest.mark.parametrize("seat", [0, 1])
def test_an_opponent_without_a_reply_raises_and_ends_the_episode(seat):
    opponent: Any = ScriptedPolicy("")
    opponent.act = lambda requests: [Reply("bet", error="no connection")]
    env = SeatEnv(lambda: arena_envs.make("kuhn_poker"), seat, opponent)
    if seat == 0:
        env.reset(seed=0)
    turn = [partial(env.step, 1), env.reset][seat]
    message = "policy 'scripted' gave no reply: no connection"
    with pytest.raises(NoReplyError, match=message):
        turn()
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        env.step(1)
    opponent.act = lambda requests: [Reply("bet")]
    env.reset(seed=0)
    assert "outcome" in env.step(1)[-1]


def test_an_episode_that_ends_before_the_seats_turn_ends_with_the_first_step():
    opponent = ScriptedPolicy(["raise"])
    env = SeatEnv(lambda: arena_envs.make("kuhn_poker"), 1, opponent)
    observation, info = env.reset(seed=0)
    assert env.action_masks().tolist() == [1, 1]
    assert observation["action_mask"].tolist() == [1, 1]
    assert (info["legal"], "outcome" in info) == ([], False)
    assert env.step(0)[1:4] == (0.0, True, False)
    with pytest.raises(ValueError, match="call reset"):
        env.step(0)


def test_truncation_is_passed_on():
    env = gymnasium.make("arena/KuhnPoker-v0", max_turns=1).unwrapped
    env.reset(seed=0)
    assert env.step(0)[2:4] == (False, True)


def test_opponents_may_be_named():
    for opponent in ("random", RandomPolicy(), ["random"], [RandomPolicy()]):
        env = gymnasium.make(
            "arena/KuhnPoker-v0", opponents=opponent, observation="all"
        )
        episode(env, 0, random.Random(0))
    env = gymnasium.make(
        "arena/KuhnPoker-v0",
        opponents=["random"] * 2,
        num_players=3,
        observation="all",
    )
    episode(env, 0, random.Random(0))
    with pytest.raises(ValueError, match="no policy 'radnom'"):
        gymnasium.make("arena/KuhnPoker-v0", opponents="radnom")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seat": 2}, "seat from 0 to 1, got 2"),
        ({"seat": -1}, "seat from 0 to 1, got -1"),
        ({"seat": True}, "want seat from 0 to 1, got True"),
        ({"seat": 1.0}, "want seat from 0 to 1, got 1.0"),
        ({"opponents": ["random"] * 2}, "want 1 opponents, one per other seat, got 2"),
        ({"opponents": None}, "want a policy, got NoneType"),
        ({"opponents": 3}, "want a policy, got int"),
        ({"seat": "first"}, "'random' draws one"),
        ({"reply": "word"}, "want reply 'action' or 'text', got 'word'"),
        ({"observation": "txt"}, "want observation 'all', 'features' or 'text', got"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gymnasium.make("arena/KuhnPoker-v0", **options)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "frameskip",
            "known are seat, opponents, .*num_players",
        ),  # TorchRL's first try
        ("opponent", "did you mean 'opponents'"),
        ("num_player", "did you mean 'num_players'"),
    ],
)
def test_an_unknown_argument_is_refused_as_by_a_call(name, hint):
    message = f"got an unexpected keyword argument '{name}'; {hint}"
    with pytest.raises(TypeError, match=message):
        gymnasium.make("arena/KuhnPoker-v0", **{name: 1})


def test_rendering_is_the_games():
    env = gymnasium.make("arena/KuhnPoker-v0", render_mode="ansi", observation="text")
    env.reset(seed=0)
    assert env.render().startswith("player_0 is to move.\nplayer_0:\n  [")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasium_makes_vectors_of_it(mode):
    envs = gymnasium.make_vec(
        "arena/KuhnPoker-v0", num_envs=2, vectorization_mode=mode, num_players=3, seat=1
    )
    try:
        observation, _ = envs.reset(seed=1)
        assert observation["action_mask"].tolist() == [[1, 1], [1, 1]]
        observation, reward, *_, infos = envs.step(np.array([0, 1]))
        assert reward.shape == (2,)
        assert infos["action_mask"].shape == (2, 2)
    finally:
        envs.close()


def test_an_error_of_the_game_is_not_taken_for_an_illegal_action():
    env = SeatEnv(lambda: arena_envs.make("mini_hanabi"), 0, RandomPolicy())
    env.reset(seed=0, options={"chance": [0, 0, 0, 2, 2, 2, 99]})
    with pytest.raises(ValueError, match="99"):
        env.step(3)


def test_refused_options_leave_the_running_episode_and_its_seeds():
    env, twin = (
        SeatEnv(lambda: arena_envs.make("kuhn_poker"), 0, RandomPolicy())
        for _ in range(2)
    )
    for other in (env, twin):
        other.reset(seed=3)
    with pytest.raises(ValueError, match="as a list of outcomes, got 5"):
        env.reset(seed=4, options={"chance": 5})
    for other in (env, twin):
        other.step(0)
        other.reset()
    assert env.env.game_state == twin.env.game_state


@pytest.mark.parametrize("kind", ["SeatEnv", "SeatSession"])
def test_opponents_see_their_own_earlier_turns(kind):
    seen = []

    def first(request):
        own = [turn for turn in request.turns if turn.seat == request.seat]
        seen.append([(turn.index, turn.reply, turn.action) for turn in own])
        return request.wrap(request.legal[0])

    opponent = ScriptedPolicy(first)
    if kind == "SeatEnv":
        env = make_seat_env("tic_tac_toe", 0, opponent)
        env.reset(seed=0)
        for action in (8, 7):
            env.step(action)
    else:
        session = SeatSession(
            "tic_tac_toe", 0, opponent, prompt={"reply_format": "bare"}
        )
        session.reset(seed=0)
        for text in ("c3", "b3"):
            session.step(text)
    ((), ((index, reply, action),)) = seen
    assert (index, action) == (0, 0)
    assert "a1" in reply


def test_a_copy_of_a_seat_and_its_original_do_not_meet():
    env, same = (make_seat_env("bargaining", 1, reply="text") for _ in range(2))
    for one in (env, same):
        one.reset(seed=3)
    twin = copy.copy(env)
    twin.step("offer 30")
    twin.reset()
    twin.action_space.sample()
    assert env.env.game_state == same.env.game_state
    assert env.step("offer 20")[1:] == same.step("offer 20")[1:]
    assert env.env.game_state == same.env.game_state
    with pytest.raises(TypeError, match=r"copy\.deepcopy"):
        copy.copy(SeatSession("kuhn_poker"))
