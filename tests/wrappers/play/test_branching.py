"""Turn trees: several replies from the same state, each played to the end."""

import random
from itertools import pairwise

import pytest

import arena_envs
from arena_envs import GameEnv
from arena_wrappers import (
    Branching,
    PromptWrapper,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    play,
    read_episodes,
    replay,
    write_episodes,
)

SEEDS = range(6)


class Sloppy(RandomPolicy):
    """Plays at random, at times invalid, with tokens; all from the request's seed."""

    def act(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request):
        rng = random.Random(request.seed)
        text = request.wrap(rng.choice(request.legal))
        if rng.random() < 0.1:
            text = "nonsense"
        ids = [rng.randrange(100) for _ in range(3)]
        prompt = [*request.context_ids, len(request.messages)]
        return Reply(text, prompt, ids, [-0.5, -1.0, -0.25])


@pytest.fixture(params=["tolls", "telephone", "kuhn_poker"])
def small_env(request):
    """Environments with payments and chance in mid-game, free text, hidden cards."""
    if request.param == "kuhn_poker":
        return arena_envs.make("kuhn_poker")
    return GameEnv(request.getfixturevalue(request.param))


def families(episodes):
    """Candidates by (parent, branch)."""
    found = {}
    for number, episode in enumerate(episodes):
        if episode.parent is not None:
            found.setdefault((episode.parent, episode.branch), []).append(number)
    return found


def start_of(episode, num_turns):
    """What a candidate shares with its parent: all but what was paid later."""
    shared = episode.turns[:num_turns]
    return [
        (t.seat, t.index, t.messages, t.reply, t.action, t.token_ids) for t in shared
    ]


@pytest.mark.parametrize(
    ("history", "on_invalid", "follow"),
    [
        ("state", "forfeit", "best"),
        ("transcript", "retry", "all"),
        ("transcript", "random", "random"),
    ],
)
def test_batch_size_and_company_change_nothing(small_env, history, on_invalid, follow):
    def env():
        return PromptWrapper(small_env, history=history, on_invalid=on_invalid)

    seeds = SEEDS[:3]
    branch = Branching(2, turns=[0, 1], follow=follow)
    want = play(env, Sloppy(), seeds, branch=branch)
    assert len(want) > 2 * len(seeds)
    for batch_size in (1, 3):
        assert play(env, Sloppy(), seeds, branch=branch, batch_size=batch_size) == want
    alone = [e for seed in seeds for e in play(env, Sloppy(), [seed], branch=branch)]
    assert [e.turns for e in alone] == [e.turns for e in want]
    assert play(env, Sloppy(), seeds) == [e for e in want if e.parent is None]


@pytest.mark.parametrize(
    ("history", "on_invalid"),
    [("state", "random"), ("transcript", "retry")],
)
def test_every_episode_of_a_tree_replays(small_env, history, on_invalid, tmp_path):
    def env():
        return PromptWrapper(small_env, history=history, on_invalid=on_invalid)

    episodes = play(env, Sloppy(), SEEDS, branch=Branching(3, follow="random"))
    write_episodes(tmp_path / "tree.jsonl", episodes)
    assert list(read_episodes(tmp_path / "tree.jsonl")) == episodes
    for episode in episodes:
        replay(episode, small_env.game)
        if episode.parent is not None:  # states are shared, not copied
            parent = episodes[episode.parent].turns[: episode.branch]
            pairs = zip(episode.turns, parent, strict=False)
            assert all(own.state is shared.state for own, shared in pairs)


def test_a_tree_has_the_shape_that_was_asked_for(tolls):
    """Seven turns each: 1 + 7 x 3 episodes if one candidate goes on, 1 + 3 + ... if all."""
    for follow, turns, want in (
        ("best", None, 1 + 7 * 3),
        ("random", None, 1 + 7 * 3),
        ("all", [0], 1 + 3 + 9 + 27),
    ):
        branch = Branching(3, turns=turns, follow=follow)
        episodes = play(lambda: GameEnv(tolls), RandomPolicy(), [0], branch=branch)
        assert len(episodes) == want
        assert all(len(numbers) == 3 for numbers in families(episodes).values())
        for episode in episodes:
            if episode.parent is None:
                assert episode.branch is None
                continue
            parent = episodes[episode.parent]
            assert start_of(episode, episode.branch) == start_of(parent, episode.branch)
            assert parent.branch is None or parent.branch < episode.branch
            assert episode.terminated


def test_candidates_share_the_state_and_not_the_replies(tolls):
    branch = Branching(8, turns=[1], seats=[2], follow="all")
    episodes = play(lambda: GameEnv(tolls), RandomPolicy(), range(4), branch=branch)
    assert len(families(episodes)) == 4
    for numbers in families(episodes).values():
        first = [episodes[n].turns[episodes[n].branch] for n in numbers]
        assert {(turn.seat, turn.index) for turn in first} == {(2, 1)}
        assert len({str(turn.messages) for turn in first}) == 1
        assert len({turn.reply for turn in first}) > 1
        assert len({episodes[n].sample for n in numbers}) == 8


def test_the_best_candidate_goes_on(tolls):
    """Paid from the branch on to the seat that branched, ties aside."""
    branch = Branching(4, follow="best")
    episodes = play(lambda: GameEnv(tolls), RandomPolicy(), range(5), branch=branch)

    def paid(episode):
        own = episode.turns[episode.branch :]
        return sum(turn.reward for turn in own if turn.seat == own[0].seat)

    found = families(episodes)
    parents = {parent for parent, _ in found}
    compared = 0
    for numbers in found.values():
        followed = [n for n in numbers if n in parents]
        if episodes[numbers[0]].branch < 6:
            assert len(followed) == 1
        for number in followed:
            assert paid(episodes[number]) == max(paid(episodes[n]) for n in numbers)
            compared += len({paid(episodes[n]) for n in numbers}) > 1
    assert compared > 5


def test_what_a_parent_is_paid_later_is_not_paid_to_its_candidates(tolls):
    """The first turn of seat 0 earns what seat 2 pays, which differs by candidate."""
    branch = Branching(6, turns=[0], seats=[2], follow="all")
    episodes = play(lambda: GameEnv(tolls), RandomPolicy(), range(4), branch=branch)
    for episode in episodes:
        alone = replay(episode, tolls)
        assert [t.rewards for t in alone.turns] == [t.rewards for t in episode.turns]
    assert len({episode.turns[0].reward for episode in episodes[:7]}) > 1


def test_a_tree_of_forced_replies_has_equal_leaves():
    script = [ScriptedPolicy(["bet", "bet"]), ScriptedPolicy(["bet"])]
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare")
    episodes = play(lambda: env, script, [3], branch=Branching(2))
    assert len(episodes) == 1 + 2 * 2
    for one, other in pairwise(episodes):
        assert one.actions == other.actions
        assert one.returns == other.returns


def test_samples_of_one_seed_have_trees_of_their_own():
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare")
    branch = Branching(4, turns=[0], seats=[0])
    episodes = play(lambda: env, RandomPolicy(), [1], num_samples=2, branch=branch)
    assert [episode.parent for episode in episodes] == [None, *[0] * 4, None, *[5] * 4]
    assert len({episode.sample for episode in episodes}) == 10
    assert len({tuple(episode.actions[:2]) for episode in episodes}) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_candidates": 1}, "num_candidates from 2 to 10000, got 1"),
        ({"num_candidates": 2, "turns": [-1]}, "number in turns from 0"),
        ({"num_candidates": 2, "turns": 3}, "want turns as a list of integers, got 3"),
        ({"num_candidates": 2, "seats": ["a"]}, "number in seats from 0"),
        ({"num_candidates": 2, "follow": "bst"}, "did you mean 'best'"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Branching(**options)
