"""`noisy:P(POLICY)`: a random legal action with probability P, around any policy."""

import collections
import random
from typing import Any

import pytest

import arena_envs
from arena_wrappers import TurnRequest, make_policy, play
from arena_wrappers.policies import HumanPolicy, NoisyPolicy

GAME = arena_envs.make_game("tic_tac_toe")
TEXTS = [GAME.action_text(GAME.initial_state(), a) for a in range(9)]


def request(seed=0):
    state = GAME.initial_state()
    return TurnRequest(0, 0, 0, GAME, state, [], (), TEXTS, seed)


def test_noise_is_played_as_often_as_it_says_and_as_action_probs_says():
    rng = random.Random(0)
    requests = [request(rng.getrandbits(60)) for _ in range(4000)]
    policy: Any = make_policy("noisy:0.45(minimax)")
    replies = collections.Counter(reply.text for reply in policy.act(requests))
    ((chances, illegal),) = policy.action_probs([request()])
    assert sum(chances) == pytest.approx(1)
    assert illegal == 0
    assert min(chances) >= 0.05
    for text, chance in zip(TEXTS, chances, strict=True):
        assert replies[text] / 4000 == pytest.approx(chance, abs=0.03)


def test_noise_of_0_changes_nothing_and_of_1_is_all_there_is():
    requests = [request(seed) for seed in range(300)]
    for spec in ("constant:4", "mcts:5"):
        assert make_policy(f"noisy:0({spec})").act(requests) == make_policy(spec).act(
            requests
        )
    found = {reply.text for reply in make_policy("noisy:1(constant:4)").act(requests)}
    assert found == set(TEXTS)


def test_noise_around_noise_and_around_any_bot_can_be_played():
    env = arena_envs.make("tic_tac_toe")
    policies = [make_policy("noisy:0.2(noisy:0.5(mcts:10))"), make_policy("random")]
    episodes = play(lambda: env, policies, range(5))
    assert episodes[0].turns[0].policy == "noisy:0.2(noisy:0.5(mcts:10))"
    assert all(episode.terminated for episode in episodes)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("noisy:0.2(", "want closed parentheses and quotes"),
        ("noisy:0.2(minimax))", "want closed parentheses"),
        ("noisy:0.2((minimax)", "want closed parentheses"),
        ("noisy:0.2", r"want a policy as noisy:PROBABILITY\(POLICY\), got"),
        ("noisy", "want a policy as noisy:PROBABILITY"),
        ("noisy:(minimax)", "want a number after 'noisy:'"),
        ("noisy:1.5(minimax)", "want a probability from 0 to 1 in 'noisy:1.5"),
        ("noisy:-0.1(minimax)", "want a probability from 0 to 1"),
        ("noisy:0.2(human:Ada)", "want no person in noise, got 'noisy:0.2"),
        ("noisy:0.1(noisy:0.2(human))", "want no person in noise, got 'noisy:0.2"),
        ("noisy:0.2(minimxa)", "no policy 'minimxa'; did you mean 'minimax'"),
    ],
)
def test_other_noise_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        make_policy(spec)


def test_a_person_gets_no_noise():
    """The limits on play with people look at the policy itself."""
    with pytest.raises(ValueError, match="want no person in noise, got 'ada'"):
        NoisyPolicy(HumanPolicy(), 0.5, "ada")
