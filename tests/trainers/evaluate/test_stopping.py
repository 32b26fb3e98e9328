"""Evaluations stop when their interval is clear or their budget spent, and intervals hold then."""

from dataclasses import replace

import numpy as np
import pytest

from arena_envs import make_game
from arena_envs.solvers import expected_returns
from arena_eval import evaluate, matches, tabular
from arena_eval.confidence_sequences import (
    MIN_ASYMPTOTIC,
    asymptotic_interval,
    betting_interval,
    reported_interval,
)
from arena_eval.exploit import SHORT
from arena_eval.intervals import student_interval
from arena_eval.spending import Budget, read_prices
from arena_eval.stopping import FIRST, StopRule
from arena_eval.tables import caption
from arena_wrappers import NoReplyError, make_policy
from arena_wrappers.policies.api import Usage
from arena_wrappers.policies.protocol import Reply

POKER = {-13: 0.005, -1: 0.6, 1: 0.355, 13: 0.04}
RARE_LOSS = {0: 0.92, 4: 0.05, -6: 0.03}
NUM_RUNS = 100


def sequences_of(law: dict[int, float], size: int):
    values, chances = np.array([*law], float), np.array([*law.values()])
    rng = np.random.default_rng(1)
    return float(values @ chances), rng.choice(values, (NUM_RUNS, size), p=chances)


def share_held(mean, sequences, interval, looks):
    """How often the intervals of all looks hold the mean."""
    ends = [[interval(sequence[:n]) for n in looks] for sequence in sequences]
    return np.mean([all(low <= mean <= high for low, high in all_) for all_ in ends])


LOOKS = [*range(8, 50, 7), *range(50, 300, 25)]


def test_betting_intervals_hold_the_mean_at_all_looks_together():
    """Student's interval, looked at as often, holds it in two of three sequences."""
    mean, sequences = sequences_of(POKER, 300)

    def bounded(sample):
        return betting_interval(sample, -13, 13)

    assert share_held(mean, sequences, bounded, LOOKS[::3]) >= 0.93
    # the interval of all values is that of all looks at once
    assert share_held(mean, sequences, bounded, [300]) >= 0.93
    values = sequences[np.ptp(sequences[:, :8], axis=1) > 0]
    assert share_held(mean, values, student_interval, LOOKS) < 0.75


def test_betting_intervals_never_grow():
    _, sequences = sequences_of(RARE_LOSS, 200)
    ends = [betting_interval(sequences[0][:n], -26, 26) for n in (1, 20, 80, 200)]
    lows, highs = zip(*ends, strict=True)
    assert [*lows] == sorted(lows)
    assert [*highs] == sorted(highs, reverse=True)
    assert -26 <= lows[0] < lows[-1] < highs[-1] < highs[0] <= 26


def test_a_reported_interval_holds_the_mean_of_its_values():
    """Forty wins raise the lower end to 0.77, which ten losses cannot lower again."""
    values = [1.0] * 40 + [-1.0] * 10
    mean = float(np.mean(values))
    low, high = betting_interval(values, -1, 1)
    assert low > mean
    assert reported_interval(values, -1, 1) == (mean, high)


def test_asymptotic_intervals_say_nothing_before_fifty_values_and_hold_from_there():
    mean, sequences = sequences_of(RARE_LOSS, 300)
    short = sequences[0][: MIN_ASYMPTOTIC - 1]
    assert asymptotic_interval(short, -26, 26) == (-26, 26)

    def adjusted(sample):
        return asymptotic_interval(sample, -26, 26)

    assert share_held(mean, sequences, adjusted, LOOKS[6:]) >= 0.93
    constant = asymptotic_interval(np.full(60, 2.0), -26, 26)
    assert constant[0] < 0.5, "equal values do not tell their variance"


class Unknown:
    """A policy that reports no probabilities."""

    def __init__(self, spec, name):
        self.policy, self.name = make_policy(spec), name

    def act(self, requests):
        return self.policy.act(requests)


class Priced(Unknown):
    """A policy that counts its tokens, as an endpoint does."""

    prices, max_tokens = (0.0, 0.0), None

    def __init__(self, spec, model="m"):
        super().__init__(spec, model)
        self.model, self.usage = model, Usage()

    def act(self, requests):
        used = self.usage
        self.usage = replace(
            used,
            num_calls=used.num_calls + len(requests),
            prompt_tokens=used.prompt_tokens + 100 * len(requests),
            completion_tokens=used.completion_tokens + 10 * len(requests),
        )
        return super().act(requests)


def stopped(rule, base=None, **options):
    policy = Unknown("constant:1", "model")
    options = {"num_episodes": 2000, "baselines": False, "values": None} | options
    return evaluate(policy, "kuhn_poker", ["cfr:50"], base=base, stop=rule, **options)


def test_play_stops_at_the_half_width_and_the_caption_says_so():
    found = stopped(StopRule(half_width=0.4))
    row = found.rows[-1]
    assert row.high - row.low <= 0.8
    assert 20 < row.num_episodes // 2 < 400
    (line,) = found.stops
    assert f"{row.num_episodes // 2} seeds" in line
    assert "as asked for" in line
    assert line in caption(found)


def test_where_play_stops_does_not_depend_on_how_many_games_are_played_at_a_time(
    monkeypatch,
):
    first = stopped(StopRule(half_width=0.5))
    monkeypatch.setattr(matches, "CHUNK", 3)
    assert stopped(StopRule(half_width=0.5)) == first


def test_exact_figures_need_no_more_than_the_first_seeds():
    rule = StopRule(half_width=0.01)
    found = evaluate("first", "kuhn_poker", num_episodes=500, stop=rule)
    assert {row.num_episodes for row in found.rows if row.seat == 0} == {8}


def test_a_difference_is_played_until_it_has_a_sign():
    game = make_game("kuhn_poker")
    tables = {s: tabular(make_policy(s), game, SHORT)[0] for s in ("first", "cfr:50")}

    def value(seat):
        mixed = {
            key: tables["cfr:50" if key[0] == seat else "first"][key]
            for key in tables["first"]
        }
        return float(expected_returns(game, mixed)[seat])

    gap = np.mean([value(seat) for seat in (0, 1)])
    assert gap > 0, "cfr against first, less first against itself"
    found = evaluate(
        Unknown("cfr:50", "solver"),
        "kuhn_poker",
        ["first"],
        2000,
        base=Unknown("first", "base"),
        baselines=False,
        stop=StopRule(is_until_decided=True),
    )
    (difference,) = found.differences
    ends = difference.adjusted or difference
    assert 0 < ends.low <= gap <= ends.high
    assert difference.num_seeds < 2000


def test_play_for_a_sign_ends_where_the_difference_is_exact():
    done = evaluate(
        "random",
        "kuhn_poker",
        ["first"],
        200,
        base="noisy:1(first)",  # the same play, of which the difference is 0
        baselines=False,
        stop=StopRule(is_until_decided=True),
    )
    (difference,) = done.differences
    assert difference.is_exact
    assert abs(difference.difference) < 1e-9
    assert difference.num_seeds == FIRST
    assert "exact" in done.stops[0]


def test_a_sign_needs_a_base():
    with pytest.raises(ValueError, match="give base"):
        stopped(StopRule(is_until_decided=True))


def test_a_budget_of_tokens_is_not_exceeded():
    policy, rule = Priced("first"), StopRule(budget=Budget(max_tokens=20_000))
    found = evaluate(policy, "kuhn_poker", num_episodes=2000, stop=rule)
    used = policy.usage.prompt_tokens + policy.usage.completion_tokens
    assert 15_000 < used <= 20_000
    assert "budget" in found.stops[0]
    assert len({row.num_episodes for row in found.rows if row.seat == 0}) == 1


def test_a_budget_of_money_counts_all_endpoints_and_leaves_out_paid_baselines():
    players = [Priced("first", "a"), Priced("random", "b")]
    prices = {"a": (1000.0, 0.0), "b": (0.0, 20_000.0)}
    rule = StopRule(budget=Budget(max_cost=20.0, prices=prices))
    found = evaluate(
        players[0], "kuhn_poker", players[1:], num_episodes=2000, stop=rule
    )
    cost = players[0].usage.prompt_tokens * 1e-3
    cost += players[1].usage.completion_tokens * 2e-2
    assert 15 < cost <= 20
    assert {row.role for row in found.rows} == {"policy"}


def test_what_is_expected_is_near_what_is_used():
    policy, budget = Priced("random"), Budget(prices={"m": (1.0, 1.0)})
    plan = matches.EvaluationPlan(policy, "kuhn_poker", num_episodes=30)
    num_games, spending = plan.expected(budget)
    plan.run()
    assert num_games == 60
    assert spending.num_calls == pytest.approx(policy.usage.num_calls, rel=0.3)
    assert spending.cost == pytest.approx(spending.tokens / 1e6)
    assert policy.usage.num_calls > 60, "the estimate itself asks nobody"


def test_budgets_that_cannot_be_kept_are_refused():
    with pytest.raises(ValueError, match="report no tokens"):
        stopped(StopRule(budget=Budget(max_tokens=100)))
    with pytest.raises(ValueError, match="price of 'm'"):
        Budget(max_cost=1.0, prices={"n": (1.0, 1.0)}).watch([Priced("first")])
    with pytest.raises(ValueError, match="above 0"):
        Budget(max_tokens=0)
    rule = StopRule(budget=Budget(max_tokens=10))
    plan = matches.EvaluationPlan(Priced("first"), "kuhn_poker", stop=rule)
    with pytest.raises(ValueError, match="at least one seed"):
        plan.expected(rule.budget)


@pytest.mark.parametrize(
    "text",
    [
        "m = 3",
        "[m]\nprompt = 1",
        "[m]\nprompt = 1\nreply = -2",
        "[m",
        "[m]\nprompt='a'",
    ],
)
def test_prices_of_another_form_are_refused(tmp_path, text):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(ValueError, match="prices of a million tokens"):
        read_prices(tmp_path / "prices.toml")


def test_prices_are_read_by_model(tmp_path):
    (tmp_path / "prices.toml").write_text('["org/m"]\nprompt = 2\nreply = 8.5\n')
    assert read_prices(tmp_path / "prices.toml") == {"org/m": (2.0, 8.5)}


def test_play_that_a_budget_ended_goes_on_with_its_file_and_a_new_budget(tmp_path):
    out, numbers = tmp_path / "games.jsonl", []
    for _ in range(2):
        policy, rule = Priced("first"), StopRule(budget=Budget(max_tokens=8_000))
        found = evaluate(
            policy,
            "kuhn_poker",
            num_episodes=2000,
            stop=rule,
            out=out,
            baselines=False,
        )
        assert found.has_spent_budget
        assert "--out" in found.stops[0]
        numbers.append(found.rows[-1].num_episodes)
    assert numbers[1] > 1.7 * numbers[0]
    assert policy.usage.prompt_tokens + policy.usage.completion_tokens <= 8_000


def test_equal_policies_are_not_decided_and_the_largest_difference_is_said():
    rule = StopRule(is_until_decided=True)
    found = stopped(rule, base=Unknown("constant:1", "base"), num_episodes=60)
    (line,) = found.stops
    (difference,) = found.differences
    most = max(abs(difference.low), abs(difference.high))
    assert f"not decided: differences above {most:.3g} are excluded" in line


class Silent(Unknown):
    """An endpoint that is down."""

    num_asked = 0

    def act(self, requests):
        self.num_asked += len(requests)
        return [Reply("", error="no connection") for _ in requests]


def test_play_ends_early_if_nobody_answers():
    policy = Silent("first", "down")
    with pytest.raises(NoReplyError, match="no connection"):
        evaluate(policy, "kuhn_poker", stop=StopRule(half_width=0.1), baselines=False)
    assert policy.num_asked == 16
