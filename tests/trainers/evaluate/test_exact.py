"""Exact evaluation gives the means that play approaches, invalid replies included."""

import numpy as np
import pytest

import arena_envs
from arena_eval import evaluate
from arena_eval.tables import as_table, caption, evaluation_tables
from arena_trainers.cli.output import plain
from arena_wrappers import ArrayPolicy, RandomPolicy, ScriptedPolicy


def stray(features, masks):
    """A tenth of the mass on each illegal action, and the rest on the legal ones alike."""
    rows = np.where(masks > 0, 1.0, 0.1)
    return rows / rows.sum(axis=1, keepdims=True)


def rows_by_seat(evaluation, role="policy"):
    return {row.seat: row for row in evaluation.rows if row.role == role}


def test_uniform_play_of_kuhn_poker_returns_an_eighth():
    """1/8 for player_0 by enumeration of the 30 ends."""
    rows = rows_by_seat(evaluate("random", "kuhn_poker", num_episodes=2))
    assert rows[0].mean_return == pytest.approx(1 / 8, abs=1e-12)
    assert rows[1].mean_return == pytest.approx(-1 / 8, abs=1e-12)
    assert rows["all"].mean_return == pytest.approx(0, abs=1e-12)
    assert rows[0].is_exact
    assert rows[0].low == rows[0].high == rows[0].mean_return


@pytest.mark.parametrize(
    "game",
    [
        pytest.param("nim", marks=pytest.mark.slow),
        pytest.param("goofspiel(num_cards=3)", marks=pytest.mark.slow),
        "kuhn_poker(num_players=3)",
    ],
)
def test_invalid_replies_count_in_exact_figures_as_they_do_in_play(game):
    """Of many played games the mean and the shares differ by little."""
    policy = ArrayPolicy(stray, "stray")
    evaluation = evaluate(policy, game, num_episodes=250, seats=[1], baselines=False)
    (exact,) = evaluation.rows
    assert exact.is_exact
    unknown = ScriptedPolicy(lambda r: policy.act([r])[0].text, "unknown")
    (played,) = evaluate(
        unknown, game, num_episodes=250, seats=[1], baselines=False
    ).rows
    assert not played.is_exact
    half_width = (played.high - played.low) / 2
    assert exact.mean_return == pytest.approx(played.mean_return, abs=2 * half_width)
    for exact_share, share in (
        (exact.wins, played.wins),
        (exact.losses, played.losses),
    ):
        assert exact_share == pytest.approx(share, abs=4 * (0.25 / 250) ** 0.5)
    assert exact.invalid_mass > 0 or "kuhn" in game


def test_a_difference_of_two_known_policies_is_exact():
    found = evaluate("first", "kuhn_poker", base="random", num_episodes=2)
    (difference,) = found.differences
    assert difference.is_exact
    value = rows_by_seat(found)["all"].mean_return
    base_value = rows_by_seat(found, "base")["all"].mean_return
    assert difference.difference == pytest.approx(value - base_value, abs=1e-12)
    assert "(exact)" in caption(found)


def test_tables_say_exact_in_place_of_the_interval():
    found = evaluate("cfr:10", "kuhn_poker", num_episodes=2)
    assert plain(as_table(found)).count("\texact\t") == len(found.rows)
    for table in evaluation_tables(found, 80):
        (cells,) = [list(c.cells) for c in table.columns if c.header == "95 %"]
        assert set(cells) == {"exact"}


class Thinker(RandomPolicy):
    """Reports probabilities that are not those of its replies."""

    draws_as_scored = False


class Loose(RandomPolicy):
    """Has much mass on replies that are no canonical texts; some may be read."""

    def action_probs(self, requests):
        return [(shares, 0.3) for shares, _ in super().action_probs(requests)]


@pytest.mark.parametrize("policy", [Thinker(), Loose()])
def test_models_whose_scores_are_not_their_replies_are_played(policy):
    rows = evaluate(PolicyAround(policy), "kuhn_poker", num_episodes=4).rows
    assert not any(row.is_exact for row in rows if row.role == "policy")


class PolicyAround:
    """A policy that is no bot, with the probabilities of another."""

    name = "model"

    def __init__(self, policy):
        self._policy = policy
        self.act, self.action_probs = policy.act, policy.action_probs
        self.draws_as_scored = getattr(policy, "draws_as_scored", True)


class Counted(RandomPolicy):
    """A model with rare invalid replies, which counts its forward batches."""

    def __init__(self):
        self.num_batches = 0

    def action_probs(self, requests):
        self.num_batches += 1
        return [(shares, 0.002) for shares, _ in super().action_probs(requests)]


def test_a_model_is_scored_in_one_batch_for_each_seat():
    policy = Counted()
    model = PolicyAround(policy)
    rows = evaluate(model, "kuhn_poker", num_episodes=4, baselines=False).rows
    assert all(row.is_exact for row in rows)
    assert policy.num_batches == 2
    # an eighth, less forfeits of at most two turns
    assert 1 / 8 - 0.01 < rows[0].mean_return < 1 / 8
    assert 0.002 <= rows[0].invalid_mass <= 0.004


def test_limits_of_turns_and_several_samples_are_played():
    env = arena_envs.make("kuhn_poker", max_turns=1)
    assert not any(row.is_exact for row in evaluate("first", env, num_episodes=2).rows)
    rows = evaluate("random", "kuhn_poker", num_episodes=2, num_samples=3).rows
    assert not any(row.is_exact for row in rows)
