"""`SeatEnv`: its info, its seats, its samples, texts as actions, and what it renders."""

import random
from typing import Any

import gymnasium
import numpy as np
import pytest

import arena_envs
from arena_envs import GameEnv
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.games.tic_tac_toe import TicTacToe
from arena_wrappers import (
    RandomPolicy,
    ScriptedPolicy,
    SeatEnv,
    make_policy,
    play,
)
from arena_wrappers.play import bot_of, make_seat_env, seat_env


def finish(env: SeatEnv) -> dict[str, Any]:
    """The last info of an episode in which the first legal action is always played."""
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(int(env.action_masks().argmax()))
        over = terminated or truncated
    return info


def test_info_holds_the_mask_the_legal_texts_and_the_outcome() -> None:
    env = make_seat_env("tic_tac_toe", seat=1)
    observation, info = env.reset(seed=0)
    assert set(info) == {"agent", "legal", "action_mask"}
    assert info["agent"] == "player_1"
    assert info["action_mask"].tolist() == observation["action_mask"].tolist()
    game, state = env.env.game, env.env.game_state
    actions = np.flatnonzero(info["action_mask"])
    assert info["legal"] == [game.action_text(state, a) for a in actions]
    info = finish(env)
    assert info["legal"] == []
    returns = list(env.env.returns)
    told = {"returns": returns, "measures": {}, "forfeited_by": None}
    assert info["outcome"] == told
    assert info["action_mask"].tolist() == [1] * 9


def test_the_last_observation_allows_all_and_the_games_own_allows_nothing() -> None:
    env = make_seat_env("kuhn_poker")
    env.reset(seed=0)
    observation, *_ = env.step(1)
    while not env.env.terminations["player_0"]:
        observation, *_ = env.step(1)
    assert observation["action_mask"].tolist() == [1, 1]
    assert env.env.observe("player_0")["action_mask"].tolist() == [0, 0]


def test_arrays_are_the_callers_own() -> None:
    env = make_seat_env("kuhn_poker")
    observation, info = env.reset(seed=0)
    for array in (observation["action_mask"], info["action_mask"], env.action_masks()):
        array[:] = 0
    assert env.action_masks().tolist() == [1, 1]


def test_a_random_seat_is_drawn_for_each_episode_and_repeats_by_seed() -> None:
    env, twin = (make_seat_env("kuhn_poker", "random", num_players=3) for _ in "ab")
    infos = [env.reset(seed=seed if seed == 0 else None)[1] for seed in range(40)]
    seats = [info["agent"] for info in infos]
    assert set(seats) == {"player_0", "player_1", "player_2"}
    again = [twin.reset(seed=seed if seed == 0 else None)[1] for seed in range(40)]
    assert [info["agent"] for info in again] == seats


def test_samples_share_seat_and_chance_and_differ_in_the_opponents_choices() -> None:
    env = make_seat_env("leduc_poker", "random")
    deals, plays = set(), set()
    for sample in [0, 1, 2, 3, 4, 5, 6, 7, None]:
        options = None if sample is None else {"sample": sample}
        env.reset(seed=3, options=options)
        finish(env)
        deals.add((env.seat, tuple(env.env.actions[:2])))
        plays.add(tuple(env.env.actions))
        if sample == 0:
            first = env.env.actions
    assert len(deals) == 1
    assert len(plays) > 1
    assert env.env.actions == first  # no sample is sample 0


@pytest.mark.parametrize(
    ("seed", "sample", "message"),
    [
        (0, -1, r"options\['sample'\] as an integer of at least 0, got -1"),
        (0, True, "got True"),
        (0, "2", r"got '2' \(str\)"),
        (None, 2, "pass seed, too"),
    ],
)
def test_a_sample_is_checked(seed: Any, sample: Any, message: str) -> None:
    env = make_seat_env("kuhn_poker")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=seed, options={"sample": sample})
    env.step(0)  # the episode goes on


def test_actions_may_be_texts() -> None:
    env = make_seat_env("kuhn_poker", observation="text", reply="text")
    observation, info = env.reset(seed=0)
    assert isinstance(observation, str)
    assert info["legal"] == ["pass", "bet"]
    env.step(" BET ")
    assert 1 in env.env.actions[2:3]
    assert env.action_space.contains("bet")


@pytest.mark.parametrize("action", ["", "raise", "pass bet", 7, None, "<think>"])
def test_a_text_that_names_no_legal_action_is_a_forfeit(action: Any) -> None:
    env = make_seat_env("kuhn_poker", reply="text")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["illegal_action"]) == (-2.0, True, True)
    assert len(env.env.actions) == 2  # the deal alone


class Mute(TicTacToe):
    """Texts of this game must not be asked for."""

    def observe(self, state: Any, seat: int) -> str:
        raise AssertionError("an observation was rendered")

    def rules(self, seat: int) -> str:
        raise AssertionError("the rules were rendered")


@pytest.mark.parametrize("opponent", ["random", "first", "noisy:0.5(win_or_block)"])
def test_nothing_is_rendered_for_bots(opponent: str) -> None:
    env = make_seat_env(Mute(), opponents=opponent)
    env.reset(seed=0)
    assert sum(finish(env)["outcome"]["returns"]) == 0


def test_a_policy_that_is_no_bot_gets_its_prompt() -> None:
    env = make_seat_env(Mute(), seat=1, opponents=ScriptedPolicy(["center"]))
    with pytest.raises(AssertionError, match="was rendered"):
        env.reset(seed=0)


def test_a_class_of_the_users_counts_as_a_reader() -> None:
    class Own(RandomPolicy):
        pass

    assert bot_of(Own()) is None
    assert bot_of(ScriptedPolicy([])) is None
    assert bot_of(make_policy("noisy:0.5(first)")) is not None


def test_a_bot_plays_in_a_seat_as_it_does_in_play() -> None:
    """Mean return of the learner, with the first legal action against `cfr:100`."""
    policy = make_policy("cfr:100")
    env = make_seat_env("kuhn_poker", opponents=policy)
    got = [finish(_started(env, seed))["outcome"]["returns"][0] for seed in range(400)]
    want = [e.returns[0] for e in play("kuhn_poker", ["first", policy], range(400))]
    assert abs(np.mean(got) - np.mean(want)) < 0.2
    assert set(got) == set(want)


def _started(env: SeatEnv, seed: int) -> SeatEnv:
    env.reset(seed=seed)
    return env


def test_language_games_show_their_words_by_default() -> None:
    env = make_seat_env("bargaining")
    observation, info = env.reset(seed=0)
    assert "text" in observation
    assert info["legal"]
    assert "action_mask" not in info


def test_text_through_shared_memory_is_refused_with_the_fix() -> None:
    """Gymnasium would show the first text for ever."""
    for content in ("all", "text"):
        with pytest.raises(ValueError, match="shared_memory=False") as caught:
            gymnasium.make_vec(
                "arena/KuhnPoker-v0",
                num_envs=1,
                vectorization_mode="async",
                observation=content,
            )
        assert "observation='features'" in str(caught.value.__cause__)


def test_texts_pass_without_shared_memory() -> None:
    envs = gymnasium.make_vec(
        "arena/KuhnPoker-v0",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"shared_memory": False},
        observation="text",
        reply="text",
    )
    try:
        texts, _ = envs.reset(seed=0)
        assert [text[:12] for text in texts] == ["You are play"] * 2
        *_, infos = envs.step(("pass", "bet"))
        assert "illegal_action" not in infos
    finally:
        envs.close()


def test_missing_packages_for_pictures_are_refused_as_trainers_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A TypeError makes Stable-Baselines3's `make_vec_env` try without."""
    monkeypatch.setattr(seat_env, "missing_package", lambda: "resvg_py")
    with pytest.raises(TypeError, match=r"pip install '\.\[render\]'"):
        gymnasium.make("arena/KuhnPoker-v0", render_mode="rgb_array")


def test_a_seat_env_observes_what_its_environment_does() -> None:
    env = SeatEnv(
        lambda: GameEnv(KuhnPoker(), observation="text"), 0, make_policy("first")
    )
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert info["action_mask"].tolist() == [1, 1]
    assert random.Random(0).choice(info["legal"]) in ("pass", "bet")
    assert arena_envs.make("kuhn_poker").observation == "all"


def test_masks_before_the_first_reset_ask_for_one() -> None:
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        make_seat_env("kuhn_poker").action_masks()


@pytest.mark.parametrize("options", [{"sampel": 1}, {"chanse": [0]}, {"seat": 1}])
def test_an_unknown_option_of_reset_is_refused(options: dict[str, Any]) -> None:
    env = make_seat_env("kuhn_poker")
    with pytest.raises(ValueError, match=r"unknown option .* of reset; (did|known)"):
        env.reset(seed=0, options=options)


def test_a_text_is_no_action_of_a_space_of_integers() -> None:
    env = make_seat_env("tic_tac_toe")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="reply='text' to play texts"):
        env.step("a1")
    assert env.step(0)[2] is False  # the episode goes on


def test_self_is_no_opponent_of_a_single_seat() -> None:
    with pytest.raises(ValueError, match=r"let your trainer play every seat of arena"):
        make_seat_env("kuhn_poker", opponents="self")


def test_observations_as_arrays_are_the_features_with_the_mask_in_info() -> None:
    env = gymnasium.make("arena/TicTacToe-v0", observation="array")
    whole = gymnasium.make("arena/TicTacToe-v0")
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    seen, info = env.reset(seed=3)
    other, _ = whole.reset(seed=3)
    assert seen.tolist() == other["observation"].tolist()
    assert info["action_mask"].tolist() == other["action_mask"].tolist()
