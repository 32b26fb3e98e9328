"""Anyone's advantage function before the exact gradient."""

import numpy as np
import pytest

import arena_credit as credit
from arena_credit import audit


def rloo(rewards):
    """Return minus the mean return of the others."""
    total = np.array([own.sum() for own in rewards])
    others = (total.sum() - total) / max(len(total) - 1, 1)
    return [
        np.full(len(r), t - o) for r, t, o in zip(rewards, total, others, strict=True)
    ]


def to_go(rewards):
    return [np.cumsum(own[::-1])[::-1] for own in rewards]


def grpo(rewards, num_generations):
    """TRL's advantage of a group: z-scores."""
    assert len(rewards) == num_generations
    return (rewards - rewards.mean()) / (rewards.std(unbiased=False) + 1e-4)


FAULTS = {
    "sign": lambda rewards: [-a for a in rloo(rewards)],
    "one turn late": lambda rewards: [np.append(a[1:], 0.0) for a in to_go(rewards)],
    "one turn early": lambda rewards: [np.append(0.0, a[:-1]) for a in to_go(rewards)],
    "neighbour's advantage": lambda rewards: [
        np.resize(a, len(r)) for a, r in zip(rloo(rewards)[::-1], rewards, strict=True)
    ],
    "only the last payment": lambda rewards: [np.full(len(r), r[-1]) for r in rewards],
    "payments so far": lambda rewards: [np.cumsum(r) for r in rewards],
    "z-score within an episode": lambda rewards: [
        (a - a.mean()) / (a.std() + 1e-4) for a in to_go(rewards)
    ],
    "absolute": lambda rewards: [np.abs(a) for a in rloo(rewards)],
    "constant": lambda rewards: [np.ones(len(r)) for r in rewards],
}


def test_rloo_is_exact_and_its_negative_reversed():
    assert audit(rloo, "episodes", games=["bandit", "chain"]).worst == "exact"
    found = audit(FAULTS["sign"], "episodes", games=["bandit", "stop_or_go"])
    assert found.worst == "reversed"
    assert found.counterexample.game == "stop_or_go"
    seat, state, number, true, got = found.counterexample.lines[0]
    assert (seat, state, number) == (0, "first", 0)
    assert true == pytest.approx(-0.25 * (0 + 1.2 - 1))
    assert got == pytest.approx(-true)


def test_a_sign_error_in_large_batches_alone_is_reversed():
    def large_and_wrong(rewards):
        return rloo(rewards) if len(rewards) < 100 else FAULTS["sign"](rewards)

    assert audit(large_and_wrong, "episodes", games=["bandit"]).worst == "reversed"


def test_z_scores_of_two_reverse_the_bandit():
    """Winning the arm that pays more often: worked by hand, (0.8 - 0.2) / 4 = 0.15."""
    pytest.importorskip("torch")
    found = audit(grpo, "trl", games=["bandit"])
    assert found.rows[0].verdicts["2"].kind == "reversed"
    assert found.counterexample.lines[0][4] == pytest.approx(0.15, abs=1e-4)


@pytest.mark.slow
def test_the_signatures_give_one_verdict_for_one_estimator():
    pytest.importorskip("torch")

    def as_verl(token_level_rewards, response_mask, index):
        rows = token_level_rewards.sum(-1).numpy()
        out = np.zeros_like(rows)
        for group in set(index):
            own = np.flatnonzero(index == group)
            out[own] = [a[0] for a in rloo([rows[i : i + 1] for i in own])]
        return out[:, None] * response_mask.numpy(), None

    def as_turns(turns):
        return credit.estimate("rloo", turns)

    for function, signature in ((as_verl, "verl"), (as_turns, "turns")):
        assert audit(function, signature, games=["signal"]).worst == "exact"


def test_what_fails_is_a_finding():
    def wrong_length(rewards):
        return [a[:-1] for a in rewards]

    def nan(rewards):
        return [a * np.nan for a in rewards]

    for function, told in ((wrong_length, "advantages"), (nan, "finite")):
        found = audit(function, "episodes", games=["chain"])
        assert found.worst == "error"
        assert told in found.rows[0].error


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"games": "bandit"}, "want a list of games, got 'bandit'"),
        ({"games": []}, "want a list of games"),
        ({"sizes": ()}, "want numbers of episodes"),
        ({"sizes": (2, 0)}, "want numbers of episodes"),
    ],
)
def test_wrong_games_and_sizes_are_no_fault_of_the_function(option, message):
    with pytest.raises(ValueError, match=message):
        audit(rloo, "episodes", **option)


def test_an_unknown_signature_is_refused():
    with pytest.raises(ValueError, match="want a signature among turns, trl"):
        audit(rloo, "ppo")


def others(rewards, statistic):
    """Return minus a statistic of the returns of the others."""
    total = [own.sum() for own in rewards]
    less = [statistic([*total[:i], *total[i + 1 :]]) for i in range(len(total))]
    return [
        np.full(len(r), t - o) for r, t, o in zip(rewards, total, less, strict=True)
    ]


def dr_grpo(rewards):
    """Return minus the mean return; the others' part of it is unbiased, the own one scales."""
    total = np.array([own.sum() for own in rewards])
    centred = total - total.mean()
    return [np.full(len(r), a) for r, a in zip(rewards, centred, strict=True)]


def verl_to_go(token_level_rewards, response_mask, index):
    return token_level_rewards.flip(1).cumsum(1).flip(1) * response_mask, None


def verl_outcome(token_level_rewards, response_mask, index):
    return token_level_rewards.sum(1, keepdim=True) * response_mask


def estimator(name, **options):
    return lambda turns: credit.estimate(name, turns, **options)


RIGHT = {  # exact, or a multiple of the gradient
    "return": ("episodes", lambda x: [np.full(len(r), r.sum()) for r in x]),
    "return-to-go": ("episodes", to_go),
    "leave one out": ("episodes", rloo),
    "median of the others": ("episodes", lambda x: others(x, np.median)),
    "largest of the others": ("episodes", lambda x: others(x, max)),
    "the episode before": (
        "episodes",
        lambda x: [a - b[0] for a, b in zip(to_go(x), [to_go(x)[-1], *to_go(x)], strict=False)],
    ),
    "a constant": ("episodes", lambda x: [a - 3.0 for a in to_go(x)]),
    "a tenth": ("episodes", lambda x: [a / 10 for a in to_go(x)]),
    "mean with the own episode": ("episodes", dr_grpo),
    "what was paid before": (
        "episodes",
        lambda x: [a - 0.5 * (np.cumsum(r) - r) for a, r in zip(to_go(x), x, strict=True)],
    ),
    "trl, return": ("trl", lambda rewards, num_generations: rewards),
    "trl, minus the mean": ("trl", lambda rewards, num_generations: rewards - rewards.mean()),
    "trl, leave one out": (
        "trl",
        lambda rewards, num_generations: (rewards - rewards.mean()) * num_generations / (num_generations - 1),
    ),
    "verl, outcome": ("verl", verl_outcome),
    "verl, return-to-go": ("verl", verl_to_go),
    "mars_loo": ("turns", estimator("mars_loo")),
    "mars_loo by turn": ("turns", estimator("mars_loo", pool=("group", "seat", "turn"))),
    "rloo": ("turns", estimator("rloo")),
    "random_effects": ("turns", estimator("random_effects")),
    "control_variates": ("turns", estimator("control_variates")),
    "random_effects, paid=False": ("turns", estimator("random_effects", paid=False)),
}  # fmt: skip


def test_the_order_of_the_episodes_may_matter():
    """Comparing with the episode before is exact. Other batches, of one order, are left out."""
    signature, function = RIGHT["the episode before"]
    found = audit(function, signature, games=["stop_or_go"])
    assert list(found.rows[0].verdicts) == ["2"]
    assert found.worst == "exact"


def test_a_fault_across_groups_is_found():
    """The return-to-go, and its negative as soon as a batch holds two groups."""

    def negative_across_groups(turns):
        live = credit.trajectories(turns)
        to_go = credit.returns_to_go(live, live.column("reward"))
        sign = 1 if len(np.unique(turns.group)) <= 1 else -1
        return live.scatter(sign * to_go)

    row = audit(negative_across_groups, games=["hidden_card"]).rows[0]
    assert row.verdicts["4"].kind == "exact"
    assert row.verdicts["2 + 2"].kind == "reversed"


def test_bias_and_noise_are_in_the_gradients_own_size():
    """By hand, in `stop_or_go` and batches of two: the variances 0.3025 of the return, 0.005 of rloo."""

    def tripled(rewards):
        return [3 * advantages for advantages in rloo(rewards)]

    def returns(rewards):
        return [np.full(len(r), r.sum()) for r in rewards]

    for function, noise in ((tripled, 1.0), (returns, 60.5)):
        row = audit(function, "episodes", games=["stop_or_go"], sizes=(2,)).rows[0]
        assert row.verdicts["2"].bias == pytest.approx(0, abs=1e-7)
        assert row.noise == {"2": pytest.approx(noise)}
    row = audit(FAULTS["sign"], "episodes", games=["stop_or_go"], sizes=(2,)).rows[0]
    assert row.verdicts["2"].bias == row.noise["2"] == np.inf


def test_a_constant_advantage_is_zero():
    """Its expected gradient is rounding, whose direction means nothing."""

    def ones(turns):
        return np.ones(len(turns.reward))

    for row in audit(ones, games=["bandit", "toll"], sizes=(2,)).rows:
        assert row.verdicts["2"].kind == "zero"


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_planted_fault_is_found(fault):
    """None stays exact, or a multiple of the gradient, in all games."""
    assert audit(FAULTS[fault], "episodes").worst not in ("exact", "scaled")


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_raises_no_alarm(name):
    if RIGHT[name][0] in ("trl", "verl"):
        pytest.importorskip("torch")
    signature, function = RIGHT[name]
    assert audit(function, signature).worst in ("exact", "scaled")
