"""GEM plays one seat of every game."""

import random
import runpy
import threading
from pathlib import Path

import pytest

import arena_envs

pytest.importorskip("gem", reason="gem-llm is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")

import gem

from arena_wrappers import Reply
from arena_wrappers.adapters.gem import GemEnv

all_games = pytest.mark.parametrize("id", [i.id for i in arena_envs.game_infos()])


@all_games
def test_an_episode_of_every_game_ends(id: str) -> None:
    env = gem.make(f"arena:{id}", seat="random", max_turns=8)
    seen, _ = env.reset(seed=0)
    assert r"\boxed{" in seen  # the rules say how to reply
    over = False
    while not over:
        seen, reward, terminated, truncated, info = env.step(env.sample_random_action())
        assert not info["invalid"]
        assert isinstance(reward, float)
        over = terminated or truncated
    assert len(info["outcome"]["returns"]) == arena_envs.make_game(id).num_players


def test_an_episode_that_ends_before_the_first_turn_of_a_seat_is_sampled() -> None:
    """Team red finds the assassin in its first guess."""
    env = gem.make("arena:codenames-v1", seat=2)
    env.reset(seed=1)
    assert env.unwrapped._session.done
    _, reward, terminated, _, _ = env.step(env.sample_random_action())
    assert (reward, terminated) == (0.0, True)


def replay(env: gem.Env, seed: int | None) -> list[str]:
    seen, over = [env.reset(seed=seed)[0]], False
    while not over:
        text, _, terminated, truncated, _ = env.step(env.sample_random_action())
        seen.append(text)
        over = terminated or truncated
    return seen


def test_a_seed_gives_the_same_episode_and_leaves_global_generators() -> None:
    state = random.getstate()
    env = gem.make("arena:kuhn_poker-v0", seed=5)
    assert replay(env, None) == replay(env, 5)
    assert len({tuple(replay(env, seed)) for seed in range(9)}) > 1
    assert random.getstate() == state


def test_an_invalid_reply_ends_the_episode_and_leaves_the_state() -> None:
    env = GemEnv("tic_tac_toe")
    seen, _ = env.reset(seed=0)
    after, reward, terminated, truncated, info = env.step("z9")
    assert seen.endswith(after)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert info["invalid"].startswith("Write `a1`, `b1`,")
    with pytest.raises(ValueError, match=r"call reset\(\)"):
        env.step(r"\boxed{b2}")


def test_a_spawned_copy_goes_on_by_itself() -> None:
    env = GemEnv("tic_tac_toe", opponents="minimax")
    env.reset(seed=0)
    env.step(r"\boxed{b2}")
    copy, fresh = env.spawn(same_state=True), env.spawn(seat=1)
    action = env.sample_random_action()
    assert copy.step(action)[0] == env.step(action)[0]
    assert "You are O." in fresh.reset(seed=0)[0]
    with pytest.raises(ValueError, match="no new arguments with same_state=True"):
        env.spawn(same_state=True, seat=1)


class Locked:
    """An opponent that cannot be copied, such as an endpoint."""

    name = "locked"

    def __init__(self) -> None:
        self.lock, self.asked = threading.Lock(), 0

    def act(self, requests):
        self.asked += len(requests)
        return [Reply(request.legal[-1]) for request in requests]


def test_a_spawned_copy_shares_its_opponents() -> None:
    opponent = Locked()
    env = GemEnv("tic_tac_toe", opponents=opponent)
    env.reset(seed=0)
    copy = env.spawn(same_state=True)
    assert copy.step(r"\boxed{b2}")[0] == env.step(r"\boxed{b2}")[0]
    assert opponent.asked == 2


def test_the_example_runs(record_property) -> None:
    """Random play of the first seat pays 0.23 on average, more than it costs."""
    main = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"]
    rewards = main()
    record_property("learned", f"random play, {len(rewards)} episodes")
    assert set(rewards) == {-1.0, 0.0, 1.0}
    assert 0 < sum(rewards) / len(rewards) < 0.6
