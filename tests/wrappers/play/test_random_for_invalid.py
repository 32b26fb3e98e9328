"""`on_invalid="random"`: what is drawn for an invalid reply, and what it depends on."""

import random

import pytest

import arena_envs
from arena_wrappers import Branching, Episode, PromptWrapper, ScriptedPolicy, play
from arena_wrappers.play import EpisodePlan, play_plans, replay

NONSENSE = ScriptedPolicy(lambda request: "nonsense")
MIXED = ScriptedPolicy(
    lambda request: (
        "nonsense"
        if (rng := random.Random(request.seed)).random() < 0.5
        else request.wrap(rng.choice(request.legal))
    )
)


def env(game="tic_tac_toe"):
    return PromptWrapper(arena_envs.make(game), rules=False, on_invalid="random")


def played(episodes):
    return [list(episode.actions) for episode in episodes]


def test_members_of_a_group_draw_differently():
    """They share a seed; before, all played the same actions and learned nothing."""
    group = play(env, NONSENSE, [7], num_samples=6)
    assert len({tuple(actions) for actions in played(group)}) == 6
    firsts = {
        actions[0] for actions in played(play(env, NONSENSE, [7], num_samples=60))
    }
    assert firsts == set(range(9))


def test_a_draw_follows_from_seed_sample_turn_and_seat():
    group = play(env, NONSENSE, range(3), num_samples=4)
    assert played(play(env, NONSENSE, range(3), num_samples=4, batch_size=2)) == played(
        group
    )
    alone = EpisodePlan(env, [NONSENSE] * 2, seed=1, sample=2)
    assert played(play_plans([alone])) == played([group[6]])
    # what another seat draws does not move it
    first = EpisodePlan(env, [NONSENSE, ScriptedPolicy(["garbage"] * 9)], 1, 2)
    assert played(play_plans([first])) == played([group[6]])


@pytest.mark.parametrize("game", ["tic_tac_toe", "kuhn_poker", "bargaining"])
def test_a_record_is_replayed_with_its_draws(game):
    episodes = play(lambda: env(game), MIXED, range(3), num_samples=2)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert any(turn.invalid and turn.action is not None for turn in turns)
    for episode in episodes:
        replay(Episode.from_json(episode.to_json()))


def test_a_branch_is_replayed_with_the_draws_that_it_shares():
    """They were made under the sample of the episode that it branched from."""
    branch = Branching(num_candidates=2, seats=(0,), turns=(1,))
    episodes = play(env, MIXED, range(6), branch=branch)
    shared = [
        episode
        for episode in episodes
        if any(turn.invalid for turn in episode.turns[: episode.branch or 0])
    ]
    assert shared
    for episode in episodes:
        replay(Episode.from_json(episode.to_json()))
