"""The credit of turns in the forms of other trainers, against numbers by hand and audits."""

import asyncio
import itertools
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import arena_credit as credit
from arena_credit.hooks.openrlhf import install
from arena_credit.hooks.rows import StatefulEstimator, Trajectory
from arena_credit.hooks.skyrl import WithoutPadding, step_advantages, stepwise
from arena_credit.hooks.trl import check_all_tokens, row_advantages
from arena_credit.hooks.verifiers import annotate
from arena_credit.hooks.verl import AdvantageEstimator, reads_rewards_alone


def test_hooks_import_no_framework():
    names = [
        "rows",
        "verl",
        "skyrl",
        "trl",
        "openrlhf",
        "comlrl",
        "verifiers",
        "prime_rl",
    ]
    script = "; ".join(f"import arena_credit.hooks.{name}" for name in names)
    script += "; import sys; assert not {'torch', 'gymnasium', 'trl'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_wrong_estimator_or_option_is_refused_at_once():
    with pytest.raises(ValueError, match="no estimator 'mras'"):
        StatefulEstimator("mras")
    with pytest.raises(ValueError, match="did you mean 'discount'"):
        StatefulEstimator("mars", discont=0.9)
    with pytest.raises(ValueError, match="'hapo', which credits tokens"):
        StatefulEstimator("hapo")


def test_an_estimator_keeps_its_state_and_knows_seats_by_name():
    """`rae` with decay 0.5: the second batch has the baselines 0.5 · 4 and 0.5 · -4."""
    rae = StatefulEstimator("rae", decay=0.5)
    first = [Trajectory([4.0], "a", "x", 0), Trajectory([-4.0], "a", "y", 0)]
    assert rae(first) == [[4.0], [-4.0]]
    assert rae([t._replace(group="b") for t in first[::-1]]) == [[-2.0], [2.0]]
    again = pickle.loads(pickle.dumps(rae))  # as Ray and spawned processes do
    assert again(first) == rae(first)


def test_verl_gets_the_credit_of_each_turn_on_its_tokens():
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 0, 0]])
    paid = torch.tensor([[0, 1.0, 0, 0, 2], [0, 0, 3, 1, 0]])
    advantages, to_go = AdvantageEstimator("mars_loo")(
        token_level_rewards=paid, response_mask=mask, index=np.array(["a", "a"])
    )
    first, second = 3 - 4, 2 - 4  # less the other episode's mean return-to-go
    assert advantages.tolist()[0] == [first, first, 0, second, second]
    other = (3 + 2) / 2
    assert advantages.tolist()[1] == [4 - other, 0, 4 - other, 0, 0]
    assert to_go.tolist()[0] == [3, 3, 0, 2, 2]


def test_surprise_reaches_the_estimator_turn_by_turn():
    """The batch that the hook makes, and one made by hand; masked tokens are not read."""
    rng = np.random.default_rng(0)
    mask = torch.tensor([[1, 1, 0, 1]] * 24)
    paid = torch.zeros(24, 4)
    logprobs, entropies = torch.tensor(-rng.random((2, 24, 4)))
    paid[:, 1] = paid[:, 3] = (
        5 * (logprobs - entropies)[:, 3]
    )  # surprise of the second turn
    logprobs[:, 2] = entropies[:, 2] = np.nan
    groups = [row // 6 for row in range(24)]
    tokens = {"old_log_probs": logprobs, "entropys": -entropies}
    estimator = AdvantageEstimator("control_variates")
    advantages, _ = estimator(paid, mask, groups, **tokens)
    columns = [logprobs, -entropies]
    logprob, entropy = (x[:, [0, 1, 3]].double().numpy().ravel() for x in columns)
    turns = credit.TurnBatch(
        paid[:, [1, 3]].double().numpy().ravel(),
        game=np.zeros(48, int),
        seat=np.zeros(48, int),
        episode=np.repeat(range(24), 2),
        turn=np.tile([0, 1], 24),
        group=np.repeat(groups, 2),
        num_tokens=np.tile([2, 1], 24),
        tokens={"logprob": logprob, "entropy": entropy},
    )
    want = credit.estimate("control_variates", turns).advantage.reshape(24, 2)
    np.testing.assert_allclose(advantages[:, [0, 3]], want, atol=1e-5)
    without, _ = estimator(paid, mask, groups)
    assert (advantages - without).abs().max() > 1e-3
    off, _ = AdvantageEstimator("control_variates", surprise=False)(
        paid, mask, groups, **tokens
    )
    np.testing.assert_array_equal(off, without)


def test_surprise_of_some_turns_alone_is_refused():
    known = Trajectory([1.0], "a", logprobs=[[-1.0]], entropies=[[1.0]])
    estimator = StatefulEstimator("control_variates")
    for other in (
        Trajectory([1.0], "a"),
        known._replace(logprobs=[[-1.0], [-1.0]]),
        known._replace(entropies=[[1.0, 2.0]]),
    ):
        with pytest.raises(ValueError, match="in all trajectories or in none"):
            estimator([known, other])


def test_trl_samples_from_all_tokens_where_surprise_is_read():
    plain = {"top_k": 0, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.0}
    check_all_tokens(SimpleNamespace(**plain))
    with pytest.raises(ValueError, match=r"want top_p=1.0.*got 0.9"):
        check_all_tokens(SimpleNamespace(**{**plain, "top_p": 0.9}))


def test_a_penalty_on_every_token_is_refused():
    ones = torch.ones(2, 3)
    config = SimpleNamespace(use_kl_in_reward=True)
    with pytest.raises(ValueError, match="use_kl_in_reward=False"):
        AdvantageEstimator("rloo")(ones, ones, ["a", "a"], config)


def test_verl_is_offered_what_reads_rewards_alone():
    names = reads_rewards_alone()
    assert {"mars_loo", "random_effects", "control_variates", "rloo"} <= {*names}
    assert not {"gae", "hapo", "mt_grpo", "gigpo"} & {*names}


def test_padding_of_skyrl_is_in_no_baseline():
    """Padding copies the first row: it would halve the advantage of that row."""
    paid = torch.tensor([[0, 4.0], [0, 0.0], [0, 4.0]])
    mask = torch.ones(3, 2)
    index = ["a", "a", "pad0"]
    estimator = WithoutPadding("mars_loo")
    advantages, returns = estimator(paid, mask, index, None, gamma=1.0)
    assert advantages.tolist() == [[4, 4], [-4, -4], [0, 0]]
    assert returns.tolist() == [[4, 4], [0, 0], [0, 0]]


def test_step_wise_rows_of_skyrl_keep_the_rewards_of_early_steps():
    """SkyRL's own GRPO reads the last step's reward, 0 for both, and would give 0."""

    class Trainer:
        cfg = SimpleNamespace(generator=SimpleNamespace(step_wise_trajectories=True))

        def compute_advantages_and_returns(self, data):
            data["advantages"] = torch.zeros_like(data["response_mask"])
            return data

    class Batch(dict):
        @property
        def metadata(self):
            return {
                "is_last_step": [False, True, True, True],
                "uids": ["a", "a", "a", "pad0"],
                "pad_size": 1,
            }

    rewards = torch.tensor([[0, 3.0], [0, 0], [0, 1.0], [0, 3.0]])
    mask = torch.tensor([[1.0, 1], [1, 0], [1, 1], [1, 1]])
    data = Batch(rewards=rewards, response_mask=mask)
    trainer = stepwise(Trainer, "mars_loo")()
    found = trainer.compute_advantages_and_returns(data)["advantages"]
    # first episode 3 - 1, then 0 - 1; the other 1 - (3 + 0) / 2
    assert found.tolist() == [[2, 2], [-1, 0], [-0.5, -0.5], [0, 0]]
    with pytest.raises(ValueError, match="to end its trajectory"):
        step_advantages(StatefulEstimator("rloo"), [1.0], [False], ["a"])


def test_a_row_of_trl_that_nothing_scored_is_in_no_baseline():
    totals = [1.0, float("nan"), 4.0, 2.0, 2.0, 5.0]
    turn_rewards = [None, None, [3.0, 0.0], None, None, None]
    found = row_advantages(
        StatefulEstimator("rloo"), totals, turn_rewards, [1, 2, 2, 1, 1, 1], 3
    )
    assert found == [[-3.0], [0.0, 0.0], [3.0, 3.0], [-1.5], [-1.5], [3.0]]
    with pytest.raises(ValueError, match="each of 2 turns"):
        row_advantages(StatefulEstimator("rloo"), [1.0], [[1.0]], [2], 1)


def test_the_total_that_trl_maximizes_is_credited_whatever_turn_rewards_say():
    """The last turn that is trained is paid what those before it were not."""
    for turn_rewards in ([1.0, 1.0], [1.0, 1.0, 9.0]):
        (found, _) = row_advantages(
            StatefulEstimator("mars_loo"), [5.0, 0.0], [turn_rewards, None], [2, 1], 2
        )
        assert found == [5.0, 4.0]


def test_openrlhf_needs_the_name_of_an_estimator(monkeypatch):
    monkeypatch.delenv("ARENA_CREDIT", raising=False)
    with pytest.raises(ValueError, match="set ARENA_CREDIT=mars_loo"):
        install()


def trace(name, rewards, tokens=1, **agent):
    """A trace of verifiers: a prompt, and a reply of some tokens for each reward."""
    nodes = [
        SimpleNamespace(
            mask=[False, *[True] * tokens],
            advantages=None,
            trainer_logprobs=None,
            entropies=None,
        )
        for _ in rewards
    ]
    return SimpleNamespace(
        agent=SimpleNamespace(name=name, **{"trainable": True, **agent}),
        has_error=False,
        nodes=[SimpleNamespace(mask=[False], advantages=None), *nodes],
        info={"turn_rewards": list(rewards)},
        reward=sum(rewards),
    )


def episode(*traces, task="t"):
    task = SimpleNamespace(hash=task, data=SimpleNamespace(idx=0))
    return SimpleNamespace(traces=traces, task=task, group=None)


def of_traces(episodes):
    return [[[n.advantages for n in t.nodes[1:]] for t in e.traces] for e in episodes]


def test_a_baseline_of_verifiers_holds_no_other_seat_and_not_the_own_episode():
    episodes = [
        episode(trace("player_0", [x]), trace("player_1", [-x])) for x in (1.0, 3.0)
    ]
    for estimator in ("rloo", "mars_loo"):
        annotate(episodes, estimator)
        assert of_traces(episodes) == [[[[-2]], [[2]]], [[[2]], [[-2]]]]


def test_verifiers_passes_surprise_where_the_trainer_annotated_all_replies(monkeypatch):
    trajectories = []
    call = StatefulEstimator.__call__

    def watched(self, given):
        trajectories.append(given)
        return call(self, given)

    monkeypatch.setattr(StatefulEstimator, "__call__", watched)
    episodes = [episode(trace("p", [x, 1.0], tokens=2)) for x in (1.0, 3.0)]
    replies = [n for e in episodes for n in e.traces[0].nodes[1:]]
    for node in replies:
        node.trainer_logprobs, node.entropies = [-1.0, -2.0], [0.5, 0.25]
    annotate(episodes, "control_variates")
    replies[0].entropies = None
    annotate(episodes, "control_variates")
    (one, _), (other, another) = trajectories
    assert [list(x) for x in one.logprobs] == [[-1.0, -2.0]] * 2
    assert [list(x) for x in one.entropies] == [[0.5, 0.25]] * 2
    assert other.entropies is another.entropies is another.logprobs is None


def test_tasks_of_verifiers_are_groups_and_failures_stay_as_they_are():
    episodes = [
        episode(trace("p", [1.0], tokens=2), task="a"),
        episode(trace("p", [3.0]), trace("frozen", [9.0], trainable=False), task="a"),
        episode(trace("p", [10.0]), task="b"),
        episode(trace("p", [20.0]), task="b"),
    ]
    annotate(episodes, "rloo")
    assert of_traces(episodes) == [
        *([[[[-2, -2]]], [[[2]], [None]]]),
        *([[[[-10]]], [[[10]]]]),
    ]


def test_attempts_of_one_agent_in_one_episode_are_compared():
    episodes = [episode(trace("solver", [1.0]), trace("solver", [5.0]))]
    annotate(episodes, "rloo")
    assert of_traces(episodes) == [[[[-4]], [[4]]]]


def by_verifiers(rewards):
    """`annotate` in the signature "episodes" of `audit`."""
    episodes = [episode(trace("player_0", own)) for own in rewards]
    annotate(episodes, "mars_loo")
    return [[a[0] for a in e[0]] for e in of_traces(episodes)]


def by_steps(rewards):
    """`step_advantages` in the signature "episodes" of `audit`."""
    counts = [len(own) for own in rewards]
    ends = [k == n - 1 for n in counts for k in range(n)]
    flat = step_advantages(
        StatefulEstimator("mars_loo"),
        np.concatenate(rewards),
        ends,
        ["g"] * sum(counts),
    )
    return np.split(np.array(flat), np.cumsum(counts)[:-1])


def by_rows(rewards, num_generations):
    """`row_advantages` in the signature "trl" of `audit`."""
    rows = row_advantages(
        StatefulEstimator("rloo"),
        rewards.tolist(),
        [None] * len(rewards),
        [1] * len(rewards),
        num_generations,
    )
    return torch.tensor(list(itertools.chain(*rows)))


@pytest.mark.parametrize(
    ("signature", "function"),
    [
        ("trl", by_rows),
        ("verl", AdvantageEstimator("mars_loo")),
        ("verl", WithoutPadding("mars_loo")),
        ("episodes", by_verifiers),
        ("episodes", by_steps),
    ],
)
def test_hooks_have_the_exact_gradient(signature, function):
    found = credit.audit(function, signature, games=["toll", "chain"], sizes=(2,))
    assert found.worst == "exact"


def test_prime_rl_gets_an_algorithm_with_an_own_state(monkeypatch):
    """A fake of `prime_rl.orchestrator.algo` at commit 559b447."""

    class Algorithm:
        def __init__(self, config, policy_pool):
            self.policy_pool = policy_pool

    algo = SimpleNamespace(ALGORITHM_CLASSES={"grpo": None}, Algorithm=Algorithm)
    for name in ("prime_rl", "prime_rl.orchestrator"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "prime_rl.orchestrator.algo", algo)
    from arena_credit.hooks.prime_rl import use

    with pytest.raises(ValueError, match="no estimator 'mras'"):
        use("mras")
    use("rae", decay=0.5)
    one, other = (algo.ALGORITHM_CLASSES["grpo"](None, None) for _ in range(2))
    found = []
    for algorithm in (one, one, other):
        episodes = [episode(trace("p", [4.0]))]
        asyncio.run(algorithm.score_group(episodes))
        found += of_traces(episodes)
    assert found == [[[[4]]], [[[2]]], [[[4]]]]
